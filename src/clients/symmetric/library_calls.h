// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "clients/nccl/hook_context.h"
#include "driver/driver.h"
#include "interpose/image.h"

namespace amem {

// What libraries with symmetric memory of their own, PyTorch and NVSHMEM, get in place of the
// driver's functions: the hooks of NCCL's driver calls, without slabs.

/// A driver function that a library calls, and what it gets in its place.
struct LibraryCall {
  const char* name;    ///< as the library looks it up
  const char* symbol;  ///< in libcuda
  const void* entry;
  std::atomic<uintptr_t>* real;  ///< the driver's, for the entry
};

/// `kReal` in a process in which amem is inactive, else `kHook`.
template <auto kReal, auto kHook>
struct LibraryEntry;
template <typename... Parameters, DriverResult (*Driver::*kReal)(Parameters...),
          DriverResult (*kHook)(HookContext&, Parameters...)>
struct LibraryEntry<kReal, kHook> {
  static constinit inline std::atomic<uintptr_t> real{0};
  static DriverResult call(Parameters... parameters) {
    if (hook_context() == nullptr) make_hook_context();
    HookContext* const context = hook_context();
    if (context != nullptr && !context->forward_only) return kHook(*context, parameters...);
    return reinterpret_cast<DriverResult (*)(Parameters...)>(real.load())(parameters...);
  }
};

template <auto kReal, auto kHook>
LibraryCall library_call(const char* name, const char* symbol) {
  using Entry = LibraryEntry<kReal, kHook>;
  return {name, symbol, reinterpret_cast<const void*>(&Entry::call), &Entry::real};
}

/// The calls that are the same for all libraries.
std::span<const LibraryCall> shared_library_calls();

/// The hook of cuMemCreate: device memory has the tag `symmetric`.
DriverResult create_symmetric(HookContext& context, DriverHandle* handle, size_t size_bytes,
                              const AllocationProperties* properties, unsigned long long flags);

/// The entry for the name among `own` and the shared calls, if `function` is the driver's own; else
/// `function`.
void* library_entry(std::span<const LibraryCall> own, const char* name, void* function);

/// True for an image whose file name starts with this.
bool is_library(const Image& image, const char* name);

}  // namespace amem
