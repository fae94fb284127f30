/* SPDX-License-Identifier: Apache-2.0
 * SPDX-FileCopyrightText: 2026 The amem authors
 *
 * What amem knows about this process, as data. Link -lamem_nccl (or -lnccl, which brings it along).
 * Every function may be called from any thread, at any time, before any other NCCL call too.
 */
#ifndef AMEM_H_
#define AMEM_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where this process stands: active -> pausing -> paused -> resuming -> active. */
typedef enum {
  amemActive = 0,
  amemPausing = 1,
  amemPaused = 2,
  amemResuming = 3,
  amemOff = 4 /* amem is not enabled (AMEM_ENABLE=1, amemEnable()), there is no CUDA driver, or this
                 is a forked child */
} amemState_t;

/* What becomes of memory when its owner pauses. */
typedef enum {
  amemKindKeep = 0,       /* released, contents kept on the host */
  amemKindDiscard = 1,    /* released, contents zero afterwards */
  amemKindPersistent = 2, /* never released; ncclMemStats() says why */
  amemKindCount = 3
} amemKind_t;

/* Sums over allocations, in bytes but for `objects`. */
typedef struct {
  uint64_t objects;         /* allocations */
  uint64_t allocated_bytes; /* what NCCL allocated in this process */
  uint64_t resident_bytes;  /* of these, on the GPU now */
  uint64_t released_bytes;  /* of these, not on the GPU now */
  uint64_t saved_bytes;     /* host memory that holds contents of released ones */
  uint64_t fixed_bytes;     /* of these, never released: persistent, or in a slab with what is */
} amemTotals_t;

/* The last completed pause and resume: milliseconds and bytes. */
typedef struct {
  double pause_ms;
  double pause_wait_ms;   /* for calls and work in flight, and for host memory */
  double pause_peers_ms;  /* for neighbours to let go */
  double pause_copy_ms;   /* contents to the host and memory released, in a pipeline */
  double pause_memory_ms; /* of these, driver calls for memory; the rest waited for copies */
  double resume_ms;
  double resume_memory_ms; /* of resume_copy_ms, driver calls for memory */
  double resume_copy_ms;   /* memory made and contents back, in a pipeline */
  double resume_peers_ms;
  uint64_t pause_copied_bytes;
  uint64_t resume_copied_bytes;
  uint64_t host_capacity_bytes; /* pinned host memory held for contents */
  uint64_t pause_context_bytes; /* local memory of CUDA contexts that the pause has returned
                                   (AMEM_TRIM_CONTEXT=1) */
} amemTimes_t;

amemState_t amemGetState(void);

/* Sums of what this process owns: of one device and kind, or of all with -1. Devices are the
 * driver's ordinals as this process sees them. Returns 0, or -1 when amem is off (all sums are 0
 * then) or an argument is out of range. */
int amemGetTotals(int device, int kind, amemTotals_t* totals);

/* Sums of other processes' allocations that NCCL maps here; resident means mapped. Returns as
 * amemGetTotals(). */
int amemGetImports(amemTotals_t* totals);

/* What the driver has of NCCL's memory: its objects, of which one may carry many allocations
 * (AMEM_SLAB). Their number is what a pause costs; their bytes are what it frees. */
typedef struct {
  uint64_t own;       /* objects of this process */
  uint64_t own_bytes; /* their bytes, on the GPU or released; not less than what is allocated */
  uint64_t imported;  /* objects of other processes that NCCL maps here */
} amemDriverObjects_t;

/* Returns as amemGetTotals(). */
int amemGetDriverObjects(amemDriverObjects_t* objects);

int amemGetTimes(amemTimes_t* times);

/* Gives back the pinned host memory that a pause has made to keep contents in, and that is kept for
 * the next one; *bytes, which may be NULL, is how much. Returns 0, or -1 when amem is off, when
 * this process is paused (its contents are there), or when the GPUs have not ended the work that
 * was queued on them within AMEM_TIMEOUT_MS; amemGetLastError() says which. */
int amemTrimHostMemory(uint64_t* bytes);

/* Enables amem in this process, as AMEM_ENABLE=1 does: from now on NCCL's calls are caught, in the
   libraries that are loaded and in those that come. Call it before the first communicator is made;
   in a process that makes one before, ncclPause() returns ncclInvalidUsage. Any thread, any number
   of times. */
void amemEnable(void);

/* What is caught in this process, as JSON: the NCCL libraries, how often their functions were
   called through amem, and the relocation slots of other libraries that lead to amem. For
   diagnosis; the text is the calling thread's and stays until its next call. */
const char* amemGetInterposition(void);

/* What the last failed call of this process said: the call, the object, the peer's pid and what to
 * do. "" when none failed. Valid until the calling thread calls it again. */
const char* amemGetLastError(void);

/* "0.1.0" */
const char* amemGetVersion(void);

#ifdef __cplusplus
}
#endif

#endif /* AMEM_H_ */
