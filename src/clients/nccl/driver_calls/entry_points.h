// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "clients/driver_entries/entry.h"
#include "clients/nccl/nccl_client.h"

namespace amem {

// NCCL calls hooks::<symbol>, through an Entry, in place of each function of driver/functions.def
// that is not `called`.
namespace hooks {

// Recognition of NCCL's buffers (buffer_calls.cc).
DriverResult cuMemGetAllocationGranularity(NcclClient& client, size_t* granularity_bytes,
                                           const AllocationProperties* properties, int option);
DriverResult cuMemCreate(NcclClient& client, DriverHandle* handle, size_t size_bytes,
                         const AllocationProperties* properties, unsigned long long flags);
DriverResult cuMemImportFromShareableHandle(NcclClient& client, DriverHandle* handle,
                                            void* shareable, int type);
DriverResult cuMemGetAllocationPropertiesFromHandle(NcclClient& client,
                                                    AllocationProperties* properties,
                                                    DriverHandle handle);
DriverResult cuMemAddressReserve(NcclClient& client, DeviceAddress* address, size_t size_bytes,
                                 size_t alignment, DeviceAddress wanted, unsigned long long flags);
DriverResult cuMemMap(NcclClient& client, DeviceAddress address, size_t size_bytes, size_t offset,
                      DriverHandle handle, unsigned long long flags);

inline constexpr auto cuMemRelease = &VirtualMemory::release;
inline constexpr auto cuMemAddressFree = &VirtualMemory::free_address;
inline constexpr auto cuMemUnmap = &VirtualMemory::unmap;
inline constexpr auto cuMemSetAccess = &VirtualMemory::set_access;
inline constexpr auto cuMemRetainAllocationHandle = &VirtualMemory::retain;
inline constexpr auto cuMemGetAddressRange_v2 = &VirtualMemory::get_address_range;
inline constexpr auto cuMemGetHandleForAddressRange = &VirtualMemory::get_handle_for_address_range;
inline constexpr auto cuMulticastBindMem = &VirtualMemory::bind;
inline constexpr auto cuMulticastBindAddr = &VirtualMemory::bind_address;
inline constexpr auto cuMulticastUnbind = &VirtualMemory::unbind;
inline constexpr auto cuLogicalEndpointBindMem = &VirtualMemory::bind_endpoint;
inline constexpr auto cuLogicalEndpointBindAddr = &VirtualMemory::bind_endpoint_address;
inline constexpr auto cuMemExportToShareableHandle = &SharedHandles::export_handle;

// Captures (capture_calls.cc).
DriverResult cuStreamGetCaptureInfo_v2(NcclClient& client, DriverStream stream, int* status,
                                       uint64_t* id, void* graph, void* dependencies,
                                       size_t* count);
DriverResult cuStreamGetCaptureInfo_v3(NcclClient& client, DriverStream stream, int* status,
                                       uint64_t* id, void* graph, void* dependencies, void* edges,
                                       size_t* count);

// Look-ups (lookup.cc).
DriverResult cuGetProcAddress(NcclClient& client, const char* name, void** function, int version,
                              uint64_t flags);
DriverResult cuGetProcAddress_v2(NcclClient& client, const char* name, void** function, int version,
                                 uint64_t flags, int* status);

}  // namespace hooks

// Placement of NCCL's buffers in slabs. NCCL creates each buffer in one function, on one thread:
//
//   granularity (minimum), create,     reserve, map, access      ncclCuMemAlloc (alloc.h:212)
//   granularity (minimum), import,     reserve, map, access      p2p.cc:265
//   properties, granularity (minimum), reserve, map, access      ncclCuMemAllocAddr (alloc.h:181)
//
// (@v2.28.9-1; the same from v2.20.5-1 to v2.30.7-1.) Memory that must not be in a slab
// (ncclMemAlloc, windows, multicast) queries the recommended granularity. The query therefore
// identifies the following allocation, and the reservation can return its address in the slab. amem
// verifies the sequence: a create without the query, and a map at another address, get a backing of
// their own. Memory that ncclCommResume() maps at its former address returns to its slab.

/// The calling thread's position in this sequence.
struct CallSequence {
  bool buffer_expected = false;       ///< it queried the minimum: a buffer of NCCL follows
  AllocationId mapping_expected = 0;  ///< its next reservation is for this allocation
};
inline constinit thread_local CallSequence t_call_sequence;

}  // namespace amem
