/* SPDX-License-Identifier: Apache-2.0
 * SPDX-FileCopyrightText: 2026 The amem authors
 *
 * NCCL's header with amem's five functions added. It includes the nccl.h that is installed (put
 * this folder before NCCL's on the include path); where none is, our own declarations of NCCL's
 * basic calls take its place.
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

/* Returns when the memory that NCCL holds has left the GPUs of this process and this process'
 * references to other GPUs' memory are dropped. Contents are kept on the host.
 *
 * Local: no other rank has to call anything. Waits for work in flight, up to AMEM_TIMEOUT_MS
 * (60000). Idempotent, thread-safe, not async-signal-safe; legal before any other NCCL call. `comm`
 * is ignored: the whole process pauses.
 *
 * Returns ncclSuccess; ncclInvalidUsage (nothing was changed: a stream is being captured, a group
 * is open, nothing is releasable, amem was loaded after NCCL had been initialized, work passed no
 * gate of amem's, or exit() has begun); ncclSystemError or ncclRemoteError (nothing was lost and
 * the process is active again: amemGetLastError() of amem.h says what, who and what to do). */
ncclResult_t ncclPause(ncclComm_t* comm AMEM_DEFAULT_NULL_);

/* Returns when everything that ncclPause() released is back at the same addresses with the same
 * contents.
 *
 * Local, idempotent, thread-safe. On error the process stays paused with every byte on the GPU or
 * on the host, and the call can be made again. */
ncclResult_t ncclResume(ncclComm_t* comm AMEM_DEFAULT_NULL_);

/* Prints what NCCL has allocated in this process and where it is. Independent of pause. The same as
 * data: amem.h. */
ncclResult_t ncclMemStats(void);

/* The logical group (train, infer) of this process, 0 or greater. Only before the first NCCL
 * allocation; later ncclInvalidUsage. AMEM_GROUPID sets it from outside. */
ncclResult_t ncclSetGroupID(int id);
ncclResult_t ncclGetGroupID(int* id);

#ifdef __cplusplus
}
#endif

#endif /* AMEM_NCCL_H_ */
