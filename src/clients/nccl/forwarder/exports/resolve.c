// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include <stdint.h>

// The generated trampolines.S: where trampoline i jumps to, and what it is called. The array of
// names ends with a null pointer; by its symbol amem tells this library from an NCCL library
// (clients/nccl/forwarder/forwarder.h).
extern void* amem_slots[];
extern const char* const amemForwarderNames[];

// libamem_nccl.so; never NULL.
void* amemForward(const char* name);

/// The target of slot `index`, which later calls jump to directly. Threads that race here store the
/// same pointer; the release store orders the loading of the real NCCL before the first jump past
/// this function.
__attribute__((visibility("hidden"))) void* amem_resolve(uint64_t index) {
  void* target = amemForward(amemForwarderNames[index]);
  __atomic_store_n(&amem_slots[index], target, __ATOMIC_RELEASE);
  return target;
}
