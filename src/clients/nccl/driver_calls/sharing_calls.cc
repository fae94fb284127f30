// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Hooks on what leaves the process or its tables: export, import, NIC registration.
#include <atomic>
#include <cstdint>

#include "base/log.h"
#include "clients/nccl/driver_calls/entry_points.h"
#include "clients/nccl/nccl_client.h"

namespace amem {
namespace {

/// The process has imported device memory that no amem has exported.
void warn_of_peer_without_amem(Exchange& exchange) {
  static constinit std::atomic_flag g_said;
  if (g_said.test_and_set()) return;
  AMEM_LOG(warn, -1,
           "GPU memory of a process without amem was imported (%s), which cannot import memory "
           "of this one: start all processes of the communicator with amem, or none",
           exchange.processes_without_amem("/libnccl.so").c_str());
}

}  // namespace

DriverResult hooks::cuMemExportToShareableHandle(HookContext& context, void* shareable,
                                                 DriverHandle handle, int type,
                                                 unsigned long long flags) {
  if (!is_our_handle(handle))
    return context.driver->cuMemExportToShareableHandle(shareable, handle, type, flags);
  if (type != kHandleTypeFd) {
    // A fabric handle does not identify its importers. In a slab it would be that of all buffers.
    DriverHandle backing = 0;
    {
      MutexLock lock(context.registry->mutex);
      Allocation* const allocation = find_copied(context, handle);
      if (allocation == nullptr || allocation->offset_bytes != 0 ||
          !context.registry->backing_of(*allocation).is_here())
        return driver_result::kInvalidValue;
      allocation->make_persistent("exported as a fabric handle");
      backing = context.registry->backing_of(*allocation).handle;
    }
    return context.driver->cuMemExportToShareableHandle(shareable, backing, type, flags);
  }

  MutexLock lock(context.registry->mutex);
  Allocation* allocation = context.registry->find_handle(handle);
  if (allocation == nullptr || shareable == nullptr) return driver_result::kInvalidValue;
  // The driver does not export imports, or memory without a shareable handle. The error is the
  // driver's.
  const Backing& backing = context.registry->backing_of(*allocation);
  if (allocation->is_import || (allocation->properties.requested_handle_types & kHandleTypeFd) == 0)
    return context.driver->cuMemExportToShareableHandle(shareable, backing.handle, type, flags);
  Result<int> token = context.exchange->make_token(*allocation);
  if (!token.ok()) {
    AMEM_LOG(error, allocation->device(), "cannot export an allocation: %s",
             token.error().message.c_str());
    return driver_result::kUnknown;
  }
  *static_cast<int*>(shareable) = token.value();
  return driver_result::kSuccess;
}

DriverResult hooks::cuMemImportFromShareableHandle(HookContext& context, DriverHandle* handle,
                                                   void* shareable, int type) {
  t_call_sequence.buffer_expected = false;  // the query was for the import
  if (handle != nullptr && type == kHandleTypeFd && !context.gives_no_handles) {
    const int fd = static_cast<int>(reinterpret_cast<intptr_t>(shareable));
    DriverResult result = driver_result::kSuccess;
    if (context.client != nullptr) ++context.client->imports_running;
    const bool is_token = context.exchange->import_token(fd, handle, &result);
    if (context.client != nullptr) --context.client->imports_running;
    if (is_token) {
      if (result == driver_result::kSuccess)
        t_call_sequence.mapping_expected = is_our_handle(*handle) ? allocation_of(*handle) : 0;
      return result;
    }
  }
  const DriverResult result =
      context.driver->cuMemImportFromShareableHandle(handle, shareable, type);
  // Multicast objects and host memory are not amem's anywhere.
  AllocationProperties properties{};
  if (result == driver_result::kSuccess && type == kHandleTypeFd &&
      context.driver->cuMemGetAllocationPropertiesFromHandle(&properties, *handle) ==
          driver_result::kSuccess &&
      properties.location.type == kLocationDevice)
    warn_of_peer_without_amem(*context.exchange);
  return result;
}

DriverResult hooks::cuMemGetHandleForAddressRange(HookContext& context, void* handle,
                                                  DeviceAddress address, size_t size_bytes,
                                                  int type, unsigned long long flags) {
  RegisteredRange range(&context, address, size_bytes);
  const DriverResult result =
      context.driver->cuMemGetHandleForAddressRange(handle, address, size_bytes, type, flags);
  // The dma-buf is for a NIC, which uses the physical pages as long as they are registered
  // (net.cc:994@v2.30.7-1).
  if (result == driver_result::kSuccess) range.keep("registered with a NIC");
  return result;
}

}  // namespace amem
