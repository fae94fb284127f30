/* SPDX-License-Identifier: Apache-2.0
 * SPDX-FileCopyrightText: 2026 The amem authors
 *
 * NCCL's header and amem's five additional functions. It includes the installed nccl.h: put this
 * folder before NCCL's on the include path. Without an installed nccl.h it declares NCCL's basic
 * functions itself.
 */
#ifndef AMEM_NCCL_H_
#define AMEM_NCCL_H_

#if defined(__has_include_next)
#if __has_include_next(<nccl.h>) && __has_include(<cuda_runtime.h>)
#define AMEM_HAS_INSTALLED_NCCL_H_ 1
#endif
#endif
#ifdef AMEM_HAS_INSTALLED_NCCL_H_
#include_next <nccl.h>
#else
#include "amem_nccl_abi.h"
#endif

#ifdef __cplusplus
#define AMEM_DEFAULT_NULL_ = NULL
extern "C" {
#else
#define AMEM_DEFAULT_NULL_
#endif

/* Pauses the tag "nccl". Returns when all memory of NCCL has left the GPUs of this process, and all
 * memory of other processes that NCCL has mapped here is unmapped. Contents are saved in host
 * memory.
 *
 * Local: no other rank has to call anything. Waits for work in flight, up to AMEM_TIMEOUT_MS
 * (60000). Idempotent, thread-safe, not async-signal-safe. Legal before any other NCCL call. `comm`
 * is ignored: all communicators of the process are paused.
 *
 * Returns ncclSuccess; ncclInvalidUsage, if nothing was changed (a stream is being captured, a
 * group is open, no memory can be released, amem was loaded after NCCL had been initialized, work
 * has passed no gate of amem, or exit() has begun); another error, if the pause failed: no data is
 * lost, and amemGetLastError() of amem.h says what failed, which process caused it and what to do.
 */
ncclResult_t ncclPause(ncclComm_t* comm AMEM_DEFAULT_NULL_);

/* Resumes the tag "nccl". Returns when all memory is restored: same addresses, same contents.
 *
 * Local, idempotent, thread-safe. On error the tag stays paused, every byte is on the GPU or in
 * host memory, and the call can be repeated. */
ncclResult_t ncclResume(ncclComm_t* comm AMEM_DEFAULT_NULL_);

/* Prints the memory of this process by tag, device and kind, and the reasons of persistent memory.
 * Legal in every state. amem.h has the same information as data. */
ncclResult_t ncclMemStats(void);

/* The logical group (train, infer) of this process, 0 or greater. Can be set only before NCCL's
 * first allocation; later it returns ncclInvalidUsage. AMEM_GROUP sets it from the environment. */
ncclResult_t ncclSetGroupID(int id);
ncclResult_t ncclGetGroupID(int* id);

#ifdef __cplusplus
}
#endif

#endif /* AMEM_NCCL_H_ */
