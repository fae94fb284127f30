// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include <stdint.h>

/// Tells this library from a real NCCL in its symbol table alone, without loading it
/// (shim/nccl_file.cc).
__attribute__((visibility("default"))) const char amemShimMarker[] = "amem";

// The generated trampolines.S: where trampoline i jumps to, and what it is called.
extern void* amem_slots[];
extern const char* const amem_symbol_names[];

// libamem_nccl.so; never NULL.
void* amemForward(const char* name);

/// The target of slot `index`, which later calls jump to directly. Threads that race here store the
/// same pointer; the release store orders the loading of the real NCCL before the first jump past
/// this function.
__attribute__((visibility("hidden"))) void* amem_resolve(uint64_t index) {
  void* target = amemForward(amem_symbol_names[index]);
  __atomic_store_n(&amem_slots[index], target, __ATOMIC_RELEASE);
  return target;
}
