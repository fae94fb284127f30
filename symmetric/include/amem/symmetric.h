/* SPDX-License-Identifier: Apache-2.0
 * SPDX-FileCopyrightText: 2026 The amem authors
 *
 * Symmetric memory: buffers of several processes of a host that each of them maps, with
 * synchronization and collectives on them. The memory has the tag "symmetric": amemPause() and
 * amemResume() release and restore it, with its contents, at the same addresses. Link
 * -lamem_symmetric -lamem_nccl.
 *
 * A rank allocates a buffer with amemSymmetricMalloc(). All ranks of a group then call
 * amemSymmetricRendezvous() and get a handle. C++: amem/symmetric.hpp. Kernels of an application:
 * amem/symmetric.cuh.
 *
 * Functions that take a stream enqueue their work in it and return, and can be captured into CUDA
 * graphs. All ranks of a group call the collectives and barriers of a handle in the same order, and
 * on one stream or on streams that the caller has ordered. All ranks pass the same sizes.
 * The same holds for handles that have two ranks in common, because a kernel that waits for a peer
 * occupies its GPU: as for calls on several NCCL communicators, the order on the GPUs of the two
 * ranks must be the same.
 *
 * Waiting is limited. A call waits on the host while a peer of its group is paused. Kernels wait
 * for a peer up to their timeout. Then the handle fails: its kernels return without a result, and
 * amemSymmetricGetError() and all later calls on the handle return an error that names the peer.
 * The handle also fails if a driver call fails that enqueues work of a call on it.
 * After it synchronizes with a replayed graph, an application calls amemSymmetricGetError().
 *
 * All functions return 0, or an amemError_t (amem.h); amemGetLastError() has the reason. They
 * are thread-safe, but for one handle only one thread at a time may enqueue work.
 */
#ifndef AMEM_SYMMETRIC_H_
#define AMEM_SYMMETRIC_H_

#include "amem.h"
#include "amem/symmetric_view.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A buffer of each rank of a group, and the signal pads of these ranks. */
typedef struct amemSymmetricHandle* amemSymmetric_t;

typedef enum {
  amemFloat32 = 0,
  amemFloat16 = 1,
  amemBfloat16 = 2,
  amemDataTypeMax = 0x7fffffff
} amemDataType_t;

/* Waits as long as AMEM_GATE_TIMEOUT_MS says. */
#define AMEM_SYMMETRIC_DEFAULT_TIMEOUT 0

/* How the ranks of a group meet: gathers `size_bytes` bytes of each rank, in the order of ranks, in
 * `all` of every rank. Returns 0, or another number if the exchange failed.
 * amemSymmetricRendezvous() calls it twice, or five times with multicast, on the calling thread. */
typedef struct {
  int rank;
  int world_size; /* 1 to AMEM_SYMMETRIC_MAX_RANKS */
  int (*all_gather)(void* context, const void* mine, size_t size_bytes, void* all);
  void* context;
} amemGroup_t;

/* Allocates memory on the device of the current CUDA context, aligned to 2 MiB. Its contents are
 * undefined. */
int amemSymmetricMalloc(void** pointer, size_t size_bytes);

/* Waits for the work of the device and frees memory of amemSymmetricMalloc(). Ignores NULL. Destroy
 * the handles of the buffer first. */
int amemSymmetricFree(void* pointer);

/* Maps the buffers of all ranks of the group. Collective: all ranks call it, with buffers of equal
 * size. `pointer` is the start of a buffer; each rank uses one device, which is that of the current
 * CUDA context and of the buffer. A buffer can have handles for several groups; each handle has its
 * own signal pad, in a workspace on each rank: 80 KiB, 512 KiB for each rank of the group, and
 * (world_size - 1) / world_size of the buffer, but at most 32 MiB. Fails on all ranks if it fails
 * on one; the text names the rank. With multicast (amemSymmetricInfo_t), the buffer stays on the
 * GPU at pauses until it is freed. */
int amemSymmetricRendezvous(amemSymmetric_t* handle, void* pointer, const amemGroup_t* group);

/* Waits for the work of the device, unmaps the peers' buffers and frees the handle, not the buffer.
 * Calls of other threads that wait for a paused peer of the handle fail; it waits for other calls
 * on the handle, and for launches of graphs with such calls, up to AMEM_TIMEOUT_MS. No peer may
 * have unfinished work that uses this rank's signal pad: let all ranks synchronize after a barrier
 * first. Ignores NULL. */
int amemSymmetricDestroy(amemSymmetric_t handle);

typedef struct {
  int rank;
  int world_size;
  int device;              /* the driver's ordinal */
  size_t buffer_bytes;     /* as allocated by amemSymmetricMalloc() */
  size_t signal_pad_bytes; /* of each rank */
  /* Device pointers, valid on this rank's device: of all ranks, by rank. First as arrays in host
   * memory, then as arrays in device memory for kernels. */
  void* const* buffers;
  uint32_t* const* signal_pads;
  void* const* device_buffers;
  uint32_t* const* device_signal_pads;
  /* Mapped on this device: multimem instructions at this address reach the buffers of all ranks.
   * NULL: without multicast. It needs AMEM_MULTICAST=1 on all ranks, and a GPU with multicast for
   * each. */
  void* multicast;
} amemSymmetricInfo_t;

/* Facts about a handle, valid until it is destroyed. The addresses do not change with a pause. */
int amemSymmetricGetInfo(amemSymmetric_t handle, amemSymmetricInfo_t* info);

/* What an application's kernels get of a handle, by value (amem/symmetric.cuh). */
int amemSymmetricGetView(amemSymmetric_t handle, amemSymmetricView_t* view);

/* The size of the signal pads of handles that are created from now on: a multiple of 16 up to
 * 64 KiB, the same on all ranks. Initially 4096. */
int amemSymmetricSetSignalPadSize(size_t size_bytes);
size_t amemSymmetricGetSignalPadSize(void);

/* The size in this library of amemGroup_t or amemSymmetricInfo_t, by its name; 0 for another name
 * (amemGetStructBytes()). */
size_t amemSymmetricGetStructBytes(const char* name);

/* 0 while the handle works. Does not synchronize: an error of unfinished work can be reported
 * later.
 */
int amemSymmetricGetError(amemSymmetric_t handle);

/* --- Synchronization. Timeouts are in milliseconds. */

/* Waits, on the device, until all ranks have reached this barrier. What a rank has written before,
 * to any rank's buffer, is visible after it. `channel`: 0 to 63; barriers of different channels are
 * independent. */
int amemSymmetricBarrier(amemSymmetric_t handle, int channel, amemStream_t stream,
                         uint64_t timeout_ms);

/* Signals `peer`: sets the word channel * world_size + rank of its signal pad from 0 to 1, after
 * all earlier work of the stream. Waits until the peer has consumed the previous signal of the
 * channel. `channel`: 0 to signal_pad_bytes / 4 / world_size - 1. */
int amemSymmetricPutSignal(amemSymmetric_t handle, int peer, int channel, amemStream_t stream,
                           uint64_t timeout_ms);

/* Waits for a signal of `peer` and consumes it: sets the word channel * world_size + peer of the
 * own signal pad from 1 to 0. */
int amemSymmetricWaitSignal(amemSymmetric_t handle, int peer, int channel, amemStream_t stream,
                            uint64_t timeout_ms);

/* Writes a word of any rank's buffer or signal pad after all earlier work of the stream
 * (cuStreamWriteValue32). */
int amemSymmetricWriteValue32(amemSymmetric_t handle, void* address, uint32_t value,
                              amemStream_t stream);

/* Sets `count` consecutive words of any rank's buffer or signal pad to `value` after all earlier
 * work of the stream (cuMemsetD32Async). */
int amemSymmetricMemset32(amemSymmetric_t handle, void* address, uint32_t value, size_t count,
                          amemStream_t stream);

/* Sets the own signal pad to 0. */
int amemSymmetricClearSignalPad(amemSymmetric_t handle, amemStream_t stream);

/* --- Collectives. Offsets and sizes are multiples of 16 bytes; `output` is aligned to 16 bytes.
 * The input is in the buffer of each rank, from `offset_bytes`. A collective starts when all ranks
 * have reached it and returns the buffer to the caller when no rank reads it any more: no barrier
 * is necessary before or after. Sums are computed in float32 in the order of ranks, or by the
 * multicast hardware in an order of its own. All ranks get the same bits. */

typedef enum {
  amemAllReduceAuto = 0,     /* one-shot up to 128 KiB; above, multimem or else two-shot */
  amemAllReduceOneShot = 1,  /* each rank reads the data of all ranks. The lowest latency */
  amemAllReduceTwoShot = 2,  /* each rank gets and sums one part, and writes it to all */
  amemAllReduceMultimem = 3, /* the same, reduced and distributed by the multicast hardware */
  amemAllReduceMax = 0x7fffffff
} amemAllReduce_t;

/* output = the sum of all ranks' `count` elements. `output` is the input itself (in place), or
 * memory outside of it. Two-shot and multimem: the buffer has the result too. One-shot in place: up
 * to 128 KiB. Multimem: only a handle with multicast.
 */
int amemSymmetricAllReduce(amemSymmetric_t handle, void* output, size_t offset_bytes, size_t count,
                           amemDataType_t type, amemAllReduce_t algorithm, amemStream_t stream);

/* What moves the data: multiprocessors, or copy engines, which leave the multiprocessors to other
 * kernels. */
typedef enum { amemKernels = 0, amemCopyEngines = 1, amemEngineMax = 0x7fffffff } amemEngine_t;

/* output[r] = the `size_bytes` bytes at offset_bytes in the buffer of rank r. */
int amemSymmetricAllGather(amemSymmetric_t handle, void* output, size_t offset_bytes,
                           size_t size_bytes, amemEngine_t engine, amemStream_t stream);

/* In the buffer of each rank, from `offset_bytes`: the `size_bytes` bytes of `input` of each rank.
 * `input` is memory outside of this result, or the own part of it. Only a handle with multicast. */
int amemSymmetricMultimemAllGather(amemSymmetric_t handle, const void* input, size_t offset_bytes,
                                   size_t size_bytes, amemStream_t stream);

/* output[r] = part number `rank` of the buffer of rank r, which has a part of `size_bytes` bytes
 * for each rank. */
int amemSymmetricAllToAll(amemSymmetric_t handle, void* output, size_t offset_bytes,
                          size_t size_bytes, amemEngine_t engine, amemStream_t stream);

/* output = the sum of all ranks' parts number `rank`, of `count` elements each. With copy engines,
 * `scratch` is memory of this rank for world_size parts; else it is ignored. */
int amemSymmetricReduceScatter(amemSymmetric_t handle, void* output, size_t offset_bytes,
                               size_t count, amemDataType_t type, amemEngine_t engine,
                               void* scratch, amemStream_t stream);

#ifdef __cplusplus
}
#endif

#endif /* AMEM_SYMMETRIC_H_ */
