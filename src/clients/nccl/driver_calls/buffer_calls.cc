// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Recognition of NCCL's buffers by the order of its driver calls.
#include <utility>

#include "clients/driver_entries/library_calls.h"
#include "clients/nccl/driver_calls/entry_points.h"

namespace amem {
namespace {

/// True for device memory that can be shared only by descriptor, as the driver exports whole slabs.
bool fits_a_slab(const AllocationProperties& properties) {
  return properties.requested_handle_types == kHandleTypeFd;
}

/// True for device memory with one type of handles, which is that of NCCL's own buffers.
bool may_be_buffer(const AllocationProperties& properties) {
  return properties.location.type == kLocationDevice && !t_in_mem_alloc &&
         (fits_a_slab(properties) || properties.requested_handle_types == kHandleTypeFabric);
}

/// Memory of NCCL with these properties.
Origin origin_of(const AllocationProperties* properties, bool is_buffer) {
  Origin origin{
      .tag = kNcclTag, .is_buffer = is_buffer, .in_slab = is_buffer && fits_a_slab(*properties)};
  if (t_in_mem_alloc) {
    origin.is_application_own = true;
    origin.persistent_because = "the application's own (ncclMemAlloc)";
  } else if (properties != nullptr && properties->requested_handle_types == 0) {
    // GIN and RMA allocate memory that they register with a NIC in this way. NCCL's own buffers are
    // always exportable (alloc.h:298).
    origin.persistent_because = "not exportable";
  }
  return origin;
}

}  // namespace

DriverResult hooks::cuMemGetAllocationGranularity(NcclClient& client, size_t* granularity_bytes,
                                                  const AllocationProperties* properties,
                                                  int option) {
  VirtualMemory& memory = client.handles.memory();
  const DriverResult result =
      memory.driver().cuMemGetAllocationGranularity(granularity_bytes, properties, option);
  const bool for_buffer = result == driver_result::kSuccess && option == kGranularityMinimum &&
                          may_be_buffer(*properties) && memory.gives_handles();
  t_call_sequence.buffer_expected = for_buffer;
  if (for_buffer) {
    client.prepare_host_memory(properties->location.id);
    if (fits_a_slab(*properties)) memory.slabs().lower_granularity(granularity_bytes);
  }
  return result;
}

DriverResult hooks::cuMemCreate(NcclClient& client, DriverHandle* handle, size_t size_bytes,
                                const AllocationProperties* properties, unsigned long long flags) {
  VirtualMemory& memory = client.handles.memory();
  const bool is_of_device = properties != nullptr && properties->location.type == kLocationDevice;
  const bool is_buffer = is_of_device && std::exchange(t_call_sequence.buffer_expected, false) &&
                         may_be_buffer(*properties);
  if (is_of_device && memory.gives_handles()) client.captures.note_allocation();
  const DriverResult result =
      memory.create(handle, size_bytes, properties, flags, origin_of(properties, is_buffer));
  if (result == driver_result::kSuccess && is_buffer && is_our_handle(*handle))
    t_call_sequence.mapping_expected = allocation_of(*handle);
  return result;
}

DriverResult hooks::cuMemImportFromShareableHandle(NcclClient& client, DriverHandle* handle,
                                                   void* shareable, int type) {
  t_call_sequence.buffer_expected = false;  // the query was for the import
  const DriverResult result = import_handle(client.handles, handle, shareable, type);
  if (result == driver_result::kSuccess && is_our_handle(*handle))
    t_call_sequence.mapping_expected = allocation_of(*handle);
  return result;
}

DriverResult hooks::cuMemGetAllocationPropertiesFromHandle(NcclClient& client,
                                                           AllocationProperties* properties,
                                                           DriverHandle handle) {
  if (is_our_handle(handle)) t_call_sequence.mapping_expected = allocation_of(handle);
  return client.handles.memory().get_properties(properties, handle);
}

DriverResult hooks::cuMemAddressReserve(NcclClient& client, DeviceAddress* address,
                                        size_t size_bytes, size_t alignment, DeviceAddress wanted,
                                        unsigned long long flags) {
  t_call_sequence.buffer_expected = false;  // the query was for a second mapping
  const AllocationId expected = std::exchange(t_call_sequence.mapping_expected, 0);
  return client.handles.memory().reserve(address, size_bytes, alignment, wanted, flags, expected);
}

DriverResult hooks::cuMemMap(NcclClient& client, DeviceAddress address, size_t size_bytes,
                             size_t offset, DriverHandle handle, unsigned long long flags) {
  t_call_sequence = {};  // ncclCommResume() imports and maps without a reservation
  return client.handles.memory().map(address, size_bytes, offset, handle, flags);
}

}  // namespace amem
