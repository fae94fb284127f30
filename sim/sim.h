/* SPDX-License-Identifier: Apache-2.0
 * SPDX-FileCopyrightText: 2026 The amem authors
 *
 * Additional functions of the simulated libcuda.so.1 for tests: faults, call counts and memory in
 * use. Programs look them up with dlsym; a real driver does not have them. All are thread-safe, can
 * be called before cuInit, and concern only this process.
 *
 * Environment, read when the library first needs it:
 *   AMEM_SIM_DIR        folder of the simulated machine: processes that share it share the GPUs
 *                       (default /dev/shm/amem-sim-<uid>)
 *   AMEM_SIM_DEVICES    number of GPUs (default 4, at most 16)
 *   AMEM_SIM_MEMORY_MB  physical memory of each GPU in MiB (default 4096)
 *   AMEM_SIM_LOCAL_MB   local memory of a new context in MiB, for stacks of 1024 bytes
 *                       (default 8; 0: none, for tests that count bytes)
 *   AMEM_SIM_HOSTMEM    physical memory for HOST and HOST_NUMA allocations in MiB (default 4096)
 *   AMEM_SIM_MULTICAST  1: multicast objects are supported (default 0)
 *   AMEM_SIM_FABRIC     the IMEX domain of this process: fabric handles work, between all processes
 *                       with the same one (default: none, as without an IMEX channel)
 *   AMEM_SIM_COMPUTE    compute capability, 75 for 7.5 (default 90)
 *   AMEM_SIM_FAULT      faults, as for amemSimSetFault
 *   AMEM_SIM_DELAY_US   additional duration of calls in microseconds: "cuMemMap=100,cuMemCreate=20"
 *
 * Unlike the real driver, every handle and every mapped allocation needs a file descriptor in this
 * process. The numbers start at 1024 if the limit allows it; cuInit raises the soft limit to the
 * hard limit. The first process on a machine sets the number of GPUs and the sizes, which are
 * constant until the last process on the machine has ended.
 */
#ifndef AMEM_SIM_SIM_H_
#define AMEM_SIM_SIM_H_

#ifdef __cplusplus
extern "C" {
#endif

/* Replaces the faults of this process: a comma-separated list of "name:n=code" (the n-th call from
 * now on, counted from 1, fails with that CUresult) and "name:n..=code" (the n-th and all later
 * ones). name is a name for cuGetProcAddress, or "*" for any memory call. A failing call has no
 * other effect. NULL or "" removes all faults. Returns 0, or 1 without a change if the list is
 * malformed. */
int amemSimSetFault(const char* faults);

/* The number of calls of this function (a name for cuGetProcAddress, or "*" for all memory calls)
 * since the start or the last amemSimReset, including failed calls; -1 for an unknown name. */
long long amemSimCallCount(const char* name);

/* New memory of this process is filled with this 32-bit word from now on, as if the driver did not
 * clear memory of other programs. 0: new memory is zero. */
void amemSimSetLeftover(unsigned word);

/* Removes all faults and delays, and sets the word of new memory and the call counts to 0. */
void amemSimReset(void);

/* Bytes of this GPU's physical memory that all processes use; -1 if the GPU does not exist. */
long long amemSimUsedBytes(int device);

/* What a multimem instruction at this address of a multicast object reaches: the memory of each GPU
 * that is bound there, in this process's address space. Returns their number and writes the first
 * `most` of them. For kernels of tests. */
int amemSimBoundMemory(unsigned long long address, size_t size_bytes, void** memory, int most);

#ifdef __cplusplus
}
#endif

#endif /* AMEM_SIM_SIM_H_ */
