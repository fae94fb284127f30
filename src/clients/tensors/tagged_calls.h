// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstddef>
#include <optional>

#include "clients/tensors/region.h"
#include "driver/types.h"
#include "sharing/exchange.h"

namespace amem {

// What the intercepted functions of the CUDA runtime (runtime_calls.h) and of the driver
// (memory_calls.h) do for memory with a tag. The results are cudaError_t and CUresult, which have
// the same values for the errors of these functions. Nothing: the call is for CUDA. `call` is the
// name of the function, for amemGetLastError(). Thread-safe.

/// The region with a tag in which the calling thread allocates; nothing if amem is inactive.
std::optional<Region> tagged_region(std::optional<Region> (*find)() = current_region);
/// REQUIRES: the CUDA context is current.
int allocate_in(const Region& region, const char* call, DeviceAddress* address, size_t size_bytes);
/// Waits for the work of the device as long as necessary, as cudaFree() does.
std::optional<int> free_tagged(const char* call, DeviceAddress address);

/// True for a handle of export_tagged(), of any process.
bool is_exported(const IpcHandleBytes& handle);
std::optional<int> export_tagged(const char* call, IpcHandleBytes* handle, DeviceAddress address);
/// REQUIRES: is_exported(handle), and the CUDA context is current.
int open_exported(const char* call, DeviceAddress* address, const IpcHandleBytes& handle);
std::optional<int> close_exported(const char* call, DeviceAddress address);

/// If this is memory with a tag, it is never released from now on.
void keep_resident(const void* pointer, const char* because);

/// Completes cudaDeviceEnablePeerAccess() or cuCtxEnablePeerAccess(), which returned `result`, for
/// memory with a tag of this device, or of the device of this context. CUDA does so for memory of
/// its own functions only.
template <typename Owner>
int enable_peer_access(const char* call, int result, Owner owner);

}  // namespace amem
