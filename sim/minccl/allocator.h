// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstddef>

#include "base/unique_fd.h"
#include "sim/minccl/driver_calls.h"

/// Allocation of device memory like NCCL: every object is a physical allocation, rounded up to the
/// driver's granularity, created and freed by the same driver calls in the same order. All
/// functions use the calling thread's current device.
namespace amem::minccl {

/// Create, reserve, map, set access. Does not zero the memory.
ncclResult_t cumem_alloc(size_t size_bytes, void** address, CuMemHandle* handle);
ncclResult_t cumem_alloc_as(int handle_type, size_t size_bytes, void** address,
                            CuMemHandle* handle);

/// The same after a query of the recommended granularity, as NCCL asks for memory that it binds to
/// a multicast object (nvls.cc:357@v2.30.7-1). A multicast object has an address of its own.
ncclResult_t cumem_alloc_for_multicast(size_t size_bytes, void** address, CuMemHandle* handle,
                                       size_t* mapped_bytes);
ncclResult_t cumem_map_multicast(CuMemHandle object, size_t size_bytes, void** address);
ncclResult_t cumem_unmap_multicast(void* address, size_t size_bytes);

/// Retain, release, address range, unmap, release, free address. For own and imported memory.
ncclResult_t cumem_free(void* address);

/// What another process has exported: a descriptor, or 64 bytes.
struct Shareable {
  int handle_type = kHandleTypePosixFd;
  UniqueFd fd{};
  unsigned char fabric[64] = {};
  void* pointer() const {
    return handle_type == kHandleTypeFabric
               ? const_cast<unsigned char*>(fabric)
               : reinterpret_cast<void*>(static_cast<uintptr_t>(fd.get()));
  }
};

/// Imports the memory; the handle reference is kept until cumem_free().
ncclResult_t cumem_import(const Shareable& shareable, size_t size_bytes, void** address,
                          CuMemHandle* handle);

/// A second address for memory of this process; takes over no reference.
ncclResult_t cumem_map_alias(CuMemHandle handle, size_t size_bytes, void** address);
ncclResult_t cumem_unmap_alias(void* address);

/// What ncclCommSuspend() does with memory at `address`: unmaps and releases it, and keeps the
/// address (mem_manager.cc@v2.30.7-1).
ncclResult_t cumem_leave(void* address, CuMemHandle handle, size_t size_bytes);
/// What ncclCommResume() does: creates memory of the same size, without a query of the granularity,
/// and maps it at the same address; or imports it there.
ncclResult_t cumem_recreate(void* address, size_t size_bytes, CuMemHandle* handle);
ncclResult_t cumem_map_again(void* address, size_t size_bytes, CuMemHandle handle);
ncclResult_t cumem_import_again(const Shareable& shareable, void* address, size_t size_bytes,
                                CuMemHandle* handle);

/// A second address for memory of cumem_alloc() that is mapped already: in the middle of a reserved
/// range, where NCCL has its windows (dev_runtime.cc@v2.30.7-1).
ncclResult_t cumem_map_in_window(void* memory, void** address);
ncclResult_t cumem_unmap_in_window(void* address);

/// Zeroed memory for communicator structures: from cumem_alloc(), or from cuMemAlloc with
/// NCCL_CUMEM_ENABLE=0. `stream` is one of minccl's; it is synchronized.
ncclResult_t device_alloc_zeroed(size_t size_bytes, CuStream stream, void** address);
ncclResult_t device_alloc(size_t size_bytes, void** address, CuMemHandle* handle);
ncclResult_t device_free(void* address);

/// The implementation of ncclMemAlloc(): like cumem_alloc(), with access for every device that can
/// access the current one.
ncclResult_t user_alloc(size_t size_bytes, void** address);
ncclResult_t user_free(void* address);

}  // namespace amem::minccl
