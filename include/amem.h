/* SPDX-License-Identifier: Apache-2.0
 * SPDX-FileCopyrightText: 2026 The amem authors
 *
 * Memory with a tag, pause and resume by tag, and the state of amem in this process. Link
 * -lamem_nccl (amem's own -lnccl depends on it). All functions are thread-safe and may be called
 * at any time, also before the first NCCL call.
 */
#ifndef AMEM_H_
#define AMEM_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What functions return. Codes below 100 are those of ncclResult_t. amemGetLastError() has the
 * reason. */
typedef enum {
  amemSuccess = 0,
  amemErrorCuda = 1,         /* a call of the CUDA driver failed */
  amemErrorSystem = 2,       /* a system call failed */
  amemErrorInternal = 3,     /* another process sent a message that is not valid */
  amemErrorInvalidUsage = 5, /* an argument or the state does not allow the call, or the machine
                                does not support it; nothing was changed */
  amemErrorPeer = 6,         /* another process refused the request or has ended */
  amemErrorTimeout = 100,    /* a deadline passed */
  amemErrorOutOfMemory = 101 /* a GPU has too little free memory: amemGetShortage() */
} amemError_t;

/* State of a tag: active -> pausing -> paused -> resuming -> active. */
typedef enum {
  amemActive = 0,
  amemPausing = 1,
  amemPaused = 2,
  amemResuming = 3,
  amemOff = 4 /* amem is inactive: it is not enabled (AMEM_ENABLE=1, amemEnable()), there is no CUDA
                 driver, or this is a forked child */
} amemState_t;

/* What happens to memory at a pause of its owner. */
typedef enum {
  amemKindKeep = 0,       /* released; contents are kept in pinned host memory */
  amemKindDiscard = 1,    /* released; contents are undefined afterwards */
  amemKindPersistent = 2, /* never released; ncclMemStats() prints the reason */
  amemKindDisk = 3,       /* released; contents are kept in a file (amemSetBackupDirectory) */
  amemKindZero = 4,       /* released; all bytes are zero afterwards */
  amemKindRetain = 5,     /* released; as amemKindKeep, and the contents stay in pinned host memory
                             after a resume: the next pause copies only what has changed */
  amemKindCount = 6
} amemKind_t;

/* Sums over allocations, in bytes except `objects`. */
typedef struct {
  uint64_t objects;         /* number of allocations */
  uint64_t allocated_bytes; /* allocated in this process */
  uint64_t resident_bytes;  /* of these, currently on the GPU */
  uint64_t released_bytes;  /* of these, currently released */
  uint64_t saved_bytes;     /* host memory with contents of released memory */
  uint64_t fixed_bytes;     /* of these, never released; ncclMemStats() prints the reasons */
  uint64_t disk_bytes;      /* files with contents of released memory */
} amemTotals_t;

/* The last completed pause and resume, in milliseconds and bytes. */
typedef struct {
  double pause_ms;
  double pause_wait_ms;   /* waiting for calls and queued work; reserving host memory */
  double pause_peers_ms;  /* waiting for peers to unmap */
  double pause_copy_ms;   /* copying contents to the host and releasing memory, in a pipeline */
  double pause_memory_ms; /* of this time, driver calls for memory */
  double resume_ms;
  double resume_memory_ms; /* of resume_copy_ms, driver calls for memory */
  double resume_copy_ms;   /* creating memory and restoring contents, in a pipeline */
  double resume_peers_ms;
  uint64_t pause_copied_bytes;
  uint64_t resume_copied_bytes;
  uint64_t host_capacity_bytes;   /* pinned host memory of amem */
  uint64_t pause_context_bytes;   /* local memory of CUDA contexts that the pause returned */
  uint64_t pause_unchanged_bytes; /* retained in host memory, and not copied */
} amemTimes_t;

/* --- Memory by tag.
 *
 * A tag is the name of memory that is paused and resumed together, such as "weights" or "kv_cache":
 * 1 to 64 letters, digits, '_', '-', '.', ':' or '/'. Reserved tags: "nccl" (all memory of NCCL),
 * "symmetric" (memory that all ranks of a group map; amemMalloc() accepts it), and "context" (the
 * local memory of the CUDA contexts). Tags are paused and resumed independently, in any order. */

/* Allocates memory on the device of the current CUDA context (cuCtxGetDevice), readable and
 * writable on that device. The size is rounded up to 2 MiB. `kind` is amemKindKeep,
 * amemKindDiscard, amemKindDisk, amemKindZero or amemKindRetain. The address is valid until
 * amemFree(), and stays reserved while the memory is released. New memory of a paused tag is
 * resident until the tag is paused again. Returns 0, or an amemError_t: if amem is inactive, no
 * context is current, an argument is illegal or there is not enough memory. */
int amemMalloc(void** pointer, size_t size_bytes, const char* tag, amemKind_t kind);

/* Waits for the work of the device, like cudaFree(), then frees memory of amemMalloc(), resident or
 * released. Ignores NULL. Returns as amemMalloc(). */
int amemFree(void* pointer);

/* --- Memory that several processes use, for libraries such as libamem_symmetric.so. */

/* A CUstream or cudaStream_t. */
typedef struct CUstream_st* amemStream_t;

typedef struct {
  unsigned char bytes[64];
} amemIpcHandle_t;

/* A handle with which other processes of this user on this host open the memory of amemMalloc()
 * that contains `pointer`. Returns as amemMalloc(). */
int amemIpcGetHandle(amemIpcHandle_t* handle, const void* pointer);

/* Maps the memory of a handle, readable and writable on this device (the driver's ordinal). May
 * wait for the owner, up to AMEM_TIMEOUT_MS. While the owner has paused the memory, nothing is
 * mapped at the address. Calls with the same handle and device return the same address; each needs
 * an amemIpcCloseHandle(). Returns as amemMalloc(). */
int amemIpcOpenHandle(void** pointer, const amemIpcHandle_t* handle, int device);

/* Waits for the work of the device, then unmaps memory of amemIpcOpenHandle(). Ignores NULL.
 * Returns as amemMalloc(); after an error it can be repeated. */
int amemIpcCloseHandle(void* pointer);

/* A set of memory that calls use together: memory of amemMalloc() and of amemIpcOpenHandle(), all
 * with the tag "symmetric". A call on the set is between amemEnterMemorySet() and
 * amemLeaveMemorySet(). A pause waits until no call is inside. */
typedef struct amemMemorySet* amemMemorySet_t;

typedef struct {
  void* pointer; /* device address */
  size_t size_bytes;
} amemRange_t;

/* The functions may be NULL. They run with a lock of amem, on any thread, also one that enters a
 * set, and must not call amem or block. They do not run after amemDestroyMemorySet() has returned
 * 0. */
typedef struct {
  /* Runs once if a process ends that owns memory of the set, so that kernels in flight can end:
   * within milliseconds, or before amemCreateMemorySet() returns. `text` says which, such as
   * "process 1234, has ended". Calls cannot enter from then on. */
  void (*peer_ended)(void* context, const char* text);
  /* Why calls cannot enter now, for amemGetLastError(); NULL if they can. */
  const char* (*failure)(void* context);
  void* context;
} amemMemorySetUser_t;

/* Each range begins where an allocation begins. Of memory of this process, a pause keeps the bytes
 * in the range, and the rest is undefined afterwards. `user` may be NULL. Returns as amemMalloc().
 */
int amemCreateMemorySet(amemMemorySet_t* set, const amemRange_t* ranges, size_t count,
                        const amemMemorySetUser_t* user);

/* Lets a call that uses the set in; if it returns 0, amemLeaveMemorySet() must follow. Waits up to
 * `timeout_ms` while a process is paused that owns memory of the set; 0: AMEM_GATE_TIMEOUT_MS. If
 * the stream is being captured, launches of the graph enter the set too. Returns as amemMalloc();
 * an error while the tag "symmetric" of this process is paused, and after such a process has ended.
 */
int amemEnterMemorySet(amemMemorySet_t set, amemStream_t stream, uint64_t timeout_ms);
int amemLeaveMemorySet(amemMemorySet_t set);

/* Frees the set; its memory can be freed and closed afterwards. Calls that wait in
 * amemEnterMemorySet() fail; it waits for those inside and for the work of the devices, up to
 * AMEM_TIMEOUT_MS. Ignores NULL. Returns as amemMalloc(): on error the set works as before. */
int amemDestroyMemorySet(amemMemorySet_t set);

/* The memory of amemMalloc() that contains `pointer` stays on the GPU at pauses from now on, until
 * it is freed. ncclMemStats() prints the reason, such as "bound to multicast"; the text must stay
 * valid. Returns as amemMalloc(); an error while the memory is paused. */
int amemMakePersistent(void* pointer, const char* reason);

/* Gives a file descriptor to processes of this user on this host that have the handle, until
 * amemWithdrawDescriptor(). It belongs to amem from now on. Returns as amemMalloc(). */
int amemOfferDescriptor(amemIpcHandle_t* handle, int descriptor);
int amemWithdrawDescriptor(const amemIpcHandle_t* handle);

/* A copy of the descriptor that another process offers, which the caller closes. May wait for that
 * process, up to AMEM_TIMEOUT_MS. Returns as amemMalloc(). */
int amemTakeDescriptor(int* descriptor, const amemIpcHandle_t* handle);

/* The value of an environment variable of amem that is a number or a flag, such as
 * "AMEM_TIMEOUT_MS", as this process uses it. Returns as amemMalloc(). */
int amemGetSetting(const char* name, int64_t* value);

/* From now on, amemGetLastError() returns "CALL failed: TEXT". Also writes it to the log if
 * AMEM_LOG is 2 or greater. Ignores NULL. */
void amemSetLastError(const char* call, const char* text);

/* --- Regions.
 *
 * In a region, cudaMalloc() of the calling thread allocates memory as amemMalloc() does, in all
 * libraries that are linked with the CUDA runtime (libcudart.so). cudaFree() frees this memory from
 * any thread, inside and outside regions. A program that contains the runtime (nvcc -cudart static)
 * is intercepted if AMEM_TENSORS is set in its environment (amem run --tensors does so);
 * amemMalloc() needs neither.
 *
 * PyTorch's allocator caches memory for all of its callers. Its memory has a tag in its memory
 * pools (torch.cuda.MemPool) with amem's allocators only, as the Python package uses them, and in
 * the region of the process. */

/* Opens a region for the calling thread until amemEndRegion(). Regions nest; the innermost one
 * counts. With a null `tag`, memory allocated in it is not paused. Returns as amemMalloc(). */
int amemBeginRegion(const char* tag, amemKind_t kind);

/* Closes the calling thread's innermost region. Returns an error if there is none. */
int amemEndRegion(void);

/* The same with a number, for regions that do not end in the order in which they were opened, or in
 * another thread. `all_threads`: for all threads that have no region of their own. */
int amemOpenRegion(const char* tag, amemKind_t kind, int all_threads, uint64_t* number);

/* Closes the region with this number, from any thread. Returns an error if it is not open. */
int amemCloseRegion(uint64_t number);

/* The region of the process, where no other region is open, in place of an earlier one. It covers
 * PyTorch's allocator too. A null `tag` closes it; that of AMEM_TENSORS is then open again. Returns
 * as amemMalloc(). */
int amemSetProcessRegion(const char* tag, amemKind_t kind);

/* For torch.cuda.memory.CUDAPluggableAllocator: from now on, the exported function
 * amemPoolAllocateXX(size_bytes, device, stream), with `pool` in two hexadecimal digits (00 to 3f),
 * allocates memory with this tag. amemPoolFree(pointer, size_bytes, device, stream) frees memory of
 * all of these functions. Returns as amemMalloc(). */
int amemSetPool(int pool, const char* tag, amemKind_t kind);

/* Contents in these ranges are not needed: a pause does not copy them, and they are undefined
 * afterwards. Replaces earlier ranges. First call it with none; then find unused ranges and pass
 * them. They count only until memory with a tag is freed, because its address may be that of other
 * memory afterwards. Returns as amemMalloc(). */
int amemSetUnusedRanges(const amemRange_t* ranges, size_t count);

/* Releases the memory with these tags: one tag, several tags separated by commas, or with NULL all
 * tags. Returns when it has left the GPUs. If all tags are then paused, also returns the local
 * memory of the process's CUDA contexts.
 *
 * Local: no other process has to call anything. Waits for queued work of the devices, up to
 * AMEM_TIMEOUT_MS, and can wait for work that other threads launch meanwhile. Do not start work
 * that uses the memory until amemResume() has returned.
 * Idempotent. Ignores a tag without memory. Returns 0, or an amemError_t: amemErrorInvalidUsage, if
 * nothing was changed; another one, if the pause failed. No data is lost. */
int amemPause(const char* tags);

/* Restores the memory with these tags, or with NULL of all tags. Returns when it is at its
 * addresses, with its contents if it is amemKindKeep, amemKindRetain or amemKindDisk. Idempotent.
 * Returns 0, or an amemError_t: the tags stay paused, and the call can be repeated. */
int amemResume(const char* tags);

/* The same, with this maximum wait of the call in milliseconds in place of AMEM_TIMEOUT_MS,
 * at most a day; 0: AMEM_TIMEOUT_MS. amemResume() and amemResumeWithTimeout() that miss their
 * deadline keep what they have restored; the next call continues from there, unless it waits
 * behind another process (amemResumeWait()). */
int amemPauseWithTimeout(const char* tags, uint64_t timeout_ms);
int amemResumeWithTimeout(const char* tags, uint64_t timeout_ms);

/* As amemResumeWithTimeout(), and while a GPU lacks memory, waits up to `wait_ms` milliseconds
 * more, at most a day, for memory that other processes, or other tags of this one, release. It
 * holds nothing until all of it fits, or will fit after the pauses that release memory now, and
 * then restores what there is, and the rest as more is released. Pauses and resumes of other tags
 * can run meanwhile.
 *
 * Processes of this user on this host that wait do so in turn: only the first holds memory. The
 * order is that of jobs on all GPUs alike; the job of a process is its logical group (AMEM_GROUP),
 * or all processes with the same parent. If the wait ends, the call releases what it has restored
 * and returns amemErrorOutOfMemory; amemGetShortage() says who holds the memory.
 * amemResume() and amemResumeWithTimeout() wait AMEM_RESUME_WAIT_MS, which is 0 by default. */
int amemResumeWait(const char* tags, uint64_t wait_ms, uint64_t timeout_ms);

/* Pauses the tags `paused` and resumes the tags `resumed` at the same time, so that memory which
 * leaves makes room for memory that comes, and copies run in both directions. Both are lists as for
 * amemPause(), without a tag in common; NULL is an error. `wait_ms` and `timeout_ms` are those of
 * amemResumeWait(). Returns the error of the pause, with which the resume stops waiting, or else
 * that of the resume; amemErrorSystem, if the pause was refused but `resumed` is resumed. Does
 * not return the local memory of contexts. */
int amemSwitch(const char* paused, const char* resumed, uint64_t wait_ms, uint64_t timeout_ms);

/* The saved contents of memory that is paused and kept. Copies `size_bytes` of the memory at
 * `pointer`, a device pointer into one allocation, to `to` in host memory. Returns as amemMalloc();
 * an error if `to` is NULL, the memory is not paused or its contents are not kept. */
int amemReadBackup(void* to, const void* pointer, size_t size_bytes);

/* The same without a copy: where amem keeps the contents until a resume of the memory begins, also
 * one that fails, or until it is freed. Forked children do not have this memory. NULL where
 * amemReadBackup() returns an error, and if they are not contiguous in host memory: amem does not
 * keep pages that are all zero, and contents of amemKindDisk are in a file. */
const void* amemGetBackup(const void* pointer, size_t size_bytes);

/* If `enable` is not 0, an NCCL call that needs the memory of NCCL while it is paused, or the
 * launch of a CUDA graph with such calls, resumes it first, as with AMEM_RESUME_ON_CALL=1. So does
 * a call of another process that waits for this one. Other tags stay paused: such a call must not
 * use their memory. 0, the default: calls of this process fail, and calls of other processes wait.
 * Returns as amemMalloc(). */
int amemResumeOnCall(int enable);

/* If `retain` is not 0, memory of amemKindKeep is paused as amemKindRetain is. Of amemKindKeep,
 * amemReadBackup() and amemGetBackup() also work after a resume: with the contents of the last
 * pause, until the next pause or free, or a pause that lacks host memory. The host memory stays in
 * use. 0, the default: only while the memory is paused. Returns as amemMalloc(). */
int amemRetainBackups(int retain);

/* A call of NCCL that starts work, or the end of a group. */
typedef struct {
  const void* communicator; /* an ncclComm_t; NULL at the end of a group and after an error */
  char id[33];              /* of the communicator, the same for all its ranks; "" if not known */
  int ranks;                /* number of ranks of the communicator; 0 if not known */
  int is_in_group;          /* the group of the calling thread is still open */
  int has_captured; /* work that the thread has started since its last call outside groups was
                       captured into a CUDA graph */
  int has_ended;    /* it is no such call: the application ends the communicator */
} amemNcclCall_t;
typedef int (*amemNcclObserver_t)(const amemNcclCall_t* call);

/* From now on, `observer` runs after each such call, on its thread, before it returns. It may pause
 * and resume if the thread is in no group. NCCL calls of other threads wait until it has returned
 * if the process is paused. The call of NCCL returns its result if that is not 0. NULL: none. There
 * is one observer in a process, such as libamem_cycles.so (AMEM_CYCLE_EVERY). */
void amemOnNcclCall(amemNcclObserver_t observer);

/* Writes a line to the log if AMEM_LOG is 2 or greater. Ignores NULL. */
void amemLogWarning(const char* text);

/* The directory for the contents of amemKindDisk, in place of that of AMEM_BACKUP_DIR; choose one
 * on a local disk. Files have no names and end with the process. If the path ends with XXXXXX, it
 * is the name of files instead: each allocation gets one at its pause, with other characters in
 * place of XXXXXX (mkstemp(3)) and permissions 0600. A resume or free removes it; it stays if the
 * process ends before. It contains the pages that are not all zero. A pause reserves their size
 * first and fails without room; it needs 32 MiB of pinned host memory for each device. Memory
 * leaves the GPU when its contents are durable (fdatasync), so the timeout of a pause must be
 * longer than the disk takes to write. A resume compares the contents with checksums. Returns as
 * amemMalloc(); an error if amem cannot create a file in the directory, which is then not changed.
 */
int amemSetBackupDirectory(const char* path);

/* From now on, allocations with a tag fail as for lack of memory if they would leave less than this
 * free on their device. 0, the default: no margin. Returns as amemMalloc(). */
int amemSetMemoryMargin(size_t size_bytes);

/* The state of a tag; amemActive if it was never paused, as of NULL and of a name that is no valid
 * tag. */
amemState_t amemGetTagState(const char* tag);

/* The state of the tag "nccl". */
amemState_t amemGetState(void);

/* Sums over the memory that this process owns: of one tag (NULL: all), one device and one kind
 * (-1: all). Devices are the driver's ordinals in this process. Returns 0, or an amemError_t if
 * amem is inactive, `totals` is NULL, the driver has no such device or there is no such kind: all
 * sums are 0. */
int amemGetTagTotals(const char* tag, int device, int kind, amemTotals_t* totals);

/* The same for all tags. */
int amemGetTotals(int device, int kind, amemTotals_t* totals);

/* Sums over allocations of other processes that this process imports; resident means mapped.
 * Returns as amemGetTotals(). */
int amemGetImports(amemTotals_t* totals);

/* Driver objects. One object can hold many allocations (AMEM_SLAB). The time of a pause depends on
 * their number; a pause frees their bytes. */
typedef struct {
  uint64_t own;       /* objects of this process */
  uint64_t own_bytes; /* their bytes, on the GPU or released; at least the allocated bytes */
  uint64_t imported;  /* objects of other processes that this process imports */
} amemDriverObjects_t;

/* Returns as amemGetTotals(). */
int amemGetDriverObjects(amemDriverObjects_t* objects);

/* Returns as amemGetTotals(). */
int amemGetTimes(amemTimes_t* times);

/* Pins host memory for the contents of this many bytes near the current device, so that the first
 * pause is faster. Returns at once; the memory is pinned in the background, and a pause waits for
 * it. Returns as amemMalloc(); an error if `bytes` is more than 1 PiB. */
int amemPrepareHostMemory(uint64_t bytes);

/* Releases the pinned host memory that amem keeps for the next pause and that holds no contents of
 * released memory, in the units in which it was pinned. What another process has pinned stays
 * allocated until that process releases it too. Copies of amemKindRetain of memory on the
 * GPU are dropped, unless amemRetainBackups() is on: the next pause copies all of it. Sets *bytes,
 * which may be NULL, to its size. Returns 0, or an amemError_t if amem is inactive, if all of the
 * memory holds contents, if a pause or resume is running, or if queued work of the GPUs does not
 * end within AMEM_TIMEOUT_MS. */
int amemTrimHostMemory(uint64_t* bytes);

/* Enables amem in this process, like AMEM_ENABLE=1: intercepts NCCL's calls in all loaded libraries
 * and in libraries that are loaded later. Call it before the first communicator is created;
 * otherwise ncclPause() returns ncclInvalidUsage. Idempotent. */
void amemEnable(void);

/* The process is at a safe point: until the call has returned, no work of it is queued or started
 * that uses memory with a tag, by any thread. Every process of a job calls it equally often,
 * between two steps of its work. Returns 0, in less than 50 ns, or 1 if the thread must call
 * amemWaitAtSafePoint() now, because amem pause holds the job. Always the same thread: amem pause
 * is refused while two living threads reach safe points in turns. */
int amemSafePoint(void);

/* Waits at the safe point while amem pause holds or has paused the process. Then the memory is at
 * its addresses, with its contents if they are kept. Returns 1 if the process was paused, also if
 * the pause has failed, or 0. */
int amemWaitAtSafePoint(void);

/* 1 if amem has begun to work in this process, which it does at the first call that needs it; else
 * 0. Of two copies of the library in a process only the first one begins. */
int amemIsActive(void);

/* The status of this process that `amem status --json` shows, as JSON, and in the same object:
 * "own", a list of the fields of amemTotals_t by "tag", "device" and "kind" ("keep", "discard",
 * ...); "imports", "driver" and "times", the fields of amemGetImports(), amemGetDriverObjects() and
 * amemGetTimes(). "{}" if amem is inactive. Valid until the next call by the same thread. */
const char* amemGetStatus(void);

/* Who owns the memory that this process has on each GPU, as JSON: {"pid": process id,
 * "names_libraries": AMEM_ATTRIBUTION=1, "has_process_tag": all memory of the process has a tag
 * unless it is left out, "gpus": [{"gpu": UUID, "device": ordinal, "total_bytes": of the GPU,
 * "used_bytes": by all processes, "owners": [{"owner": a tag, a library, or a part of the context,
 * "bytes": n, "remedy": what would release it, if it is 100 MiB or more and something would}]}]}. A
 * device that was busy has "busy": true in place of the bytes, and no parts of the context.
 * Libraries are owners with AMEM_ATTRIBUTION=1 only, with "allocations": number, "largest_bytes":
 * n, "largest_at": the file, offset and stack of Python of its call. Makes driver calls, and waits
 * 0.1 s at most for a device.
 * "{}" if amem is inactive. Valid until the next call by the same thread. */
const char* amemGetAttribution(void);

/* The interception in this process, as JSON: the NCCL libraries, the number of calls of their
 * functions through amem, and the relocation slots of other libraries that lead to amem. For
 * diagnosis. Empty in a forked child. Valid until the next call by the same thread. */
const char* amemGetInterposition(void);

/* The text of the last error: the call, the object, the pid of the peer and what to do; "" if no
 * call has failed. If the last call of this thread has failed, its error; otherwise the last one of
 * the process. Valid until the next call by the same thread. */
const char* amemGetLastError(void);

/* What the last error, as of amemGetLastError(), lacked, if it is amemErrorOutOfMemory, as JSON:
 * {"device": 0, "wanted_bytes": 1, "free_bytes": 0, "holders": [{"pid": 42, "bytes": 1}]}; of the
 * devices that lack memory, the one that lacks most. "bytes" is null if the driver does not report
 * it; an allocation lists no holders. Else "{}". Valid until the next call by the same thread. */
const char* amemGetShortage(void);

/* "0.1.0" */
const char* amemGetVersion(void);

/* The size in this library of amemTotals_t, amemDriverObjects_t or amemTimes_t, by its name; 0 for
 * another name. A program that loads the library at run time compares it with its own: functions
 * that fill a structure write this many bytes. */
size_t amemGetStructBytes(const char* name);

#ifdef __cplusplus
}
#endif

#endif /* AMEM_H_ */
