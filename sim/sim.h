/* SPDX-License-Identifier: Apache-2.0
 * SPDX-FileCopyrightText: 2026 The amem authors
 *
 * What the simulated libcuda.so.1 offers besides the driver's functions: faults, call counts and
 * figures for tests. A program finds them with dlsym; on a real driver they are absent. All may be
 * called from any thread, before cuInit too, and concern this process only.
 *
 * Environment, read when the library first needs it:
 *   AMEM_SIM_DIR        folder of the simulated machine: processes that share it share the GPUs
 *                       (default /dev/shm/amem-sim-<uid>)
 *   AMEM_SIM_DEVICES    number of GPUs (default 4, at most 16)
 *   AMEM_SIM_MEMORY_MB  physical memory of each GPU in MiB (default 4096)
 *   AMEM_SIM_LOCAL_MB   local memory of each context in MiB for stacks of 1024 bytes, as a context
 *                       begins (default 8; 0: none, for tests that count bytes)
 *   AMEM_SIM_HOSTMEM    physical memory for HOST and HOST_NUMA allocations in MiB (default 4096)
 *   AMEM_SIM_MULTICAST  1: multicast objects are supported (default 0)
 *   AMEM_SIM_FAULT      faults, as for amemSimSetFault
 *   AMEM_SIM_DELAY_US   microseconds that calls take longer: "cuMemMap=100,cuMemCreate=20"
 *
 * Unlike the real driver, every handle and every mapped allocation costs this process a descriptor,
 * numbered from 1024 where the limit allows; cuInit raises the soft limit to the hard one.
 * The first process on a machine decides the number of GPUs and the sizes; they hold until the last
 * process on it has ended.
 */
#ifndef AMEM_SIM_SIM_H_
#define AMEM_SIM_SIM_H_

#ifdef __cplusplus
extern "C" {
#endif

/* Replaces the faults of this process: a comma-separated list of "name:n=code" (the n-th call from
 * now on, counted from 1, fails with that CUresult) and "name:n..=code" (the n-th and all later
 * ones). name is as cuGetProcAddress takes it, or "*" for any memory call. A failing call has no
 * other effect. NULL or "" removes all. Returns 0, or 1 and changes nothing if the list cannot be
 * understood. */
int amemSimSetFault(const char* faults);

/* Calls of this function (named as for cuGetProcAddress, "*" for all memory calls) since the start
 * or the last amemSimReset, failed ones included; -1 for an unknown name. */
long long amemSimCallCount(const char* name);

/* Memory that this process creates from now on is full of this 32-bit word: a driver that does not
 * scrub hands out what another program left there. 0: it reads zero, as that of a driver that does.
 */
void amemSimSetLeftover(unsigned word);

/* Removes all faults, delays and leftovers and sets the call counts to 0. */
void amemSimReset(void);

/* Bytes of this GPU's physical memory that are in use by any process; -1 if there is no such GPU.
 */
long long amemSimUsedBytes(int device);

#ifdef __cplusplus
}
#endif

#endif /* AMEM_SIM_SIM_H_ */
