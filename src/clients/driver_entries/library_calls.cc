// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/driver_entries/library_calls.h"

#include <cstring>
#include <string>

#include "base/log.h"
#include "interpose/image.h"

namespace amem {

#define AMEM_SHARED_CALL(function, hook) AMEM_DRIVER_CALL(function, function, &hook)

const std::array<DriverCall, 12> kSharedLibraryCalls{{
    AMEM_SHARED_CALL(cuMemRelease, VirtualMemory::release),
    AMEM_SHARED_CALL(cuMemMap, VirtualMemory::map),
    AMEM_SHARED_CALL(cuMemUnmap, VirtualMemory::unmap),
    AMEM_SHARED_CALL(cuMemSetAccess, VirtualMemory::set_access),
    AMEM_SHARED_CALL(cuMemExportToShareableHandle, SharedHandles::export_handle),
    AMEM_SHARED_CALL(cuMemImportFromShareableHandle, import_handle),
    AMEM_SHARED_CALL(cuMemRetainAllocationHandle, VirtualMemory::retain),
    AMEM_SHARED_CALL(cuMemGetAllocationPropertiesFromHandle, VirtualMemory::get_properties),
    AMEM_SHARED_CALL(cuMulticastBindMem, VirtualMemory::bind),
    AMEM_SHARED_CALL(cuMulticastUnbind, VirtualMemory::unbind),
    AMEM_SHARED_CALL(cuLogicalEndpointBindMem, VirtualMemory::bind_endpoint),
    AMEM_SHARED_CALL(cuLogicalEndpointBindAddr, VirtualMemory::bind_endpoint_address),
}};

DriverResult import_handle(SharedHandles& handles, DriverHandle* handle, void* shareable,
                           int type) {
  const DriverResult result = handles.import_handle(handle, shareable, type);
  if (result != driver_result::kSuccess || type != kHandleTypeFd || is_our_handle(*handle))
    return result;
  // No amem has exported it. Multicast objects and host memory are not amem's anywhere.
  static constinit std::atomic_flag g_warned;
  AllocationProperties properties{};
  if (handles.memory().driver().cuMemGetAllocationPropertiesFromHandle(&properties, *handle) ==
          driver_result::kSuccess &&
      properties.location.type == kLocationDevice && !g_warned.test_and_set())
    AMEM_LOG(warn, -1,
             "GPU memory of a process without amem was imported (%s), which cannot import memory "
             "of this one: start all processes of the communicator with amem, or none",
             handles.exchange().processes_without_amem("/libnccl.so").c_str());
  return result;
}

void* library_entry(std::span<const DriverCall> own, const char* name, void* function) {
  for (const auto calls : {own, std::span<const DriverCall>(kSharedLibraryCalls)}) {
    for (const DriverCall& call : calls) {
      if (strcmp(call.name, name) != 0) continue;
      const auto address = reinterpret_cast<uintptr_t>(function);
      if (address == 0) return nullptr;
      if (address != first_definition(call.symbol)) {
        if (!is_in_this_library(address)) forward_unknown_form(std::string("a look-up of ") + name);
        return function;
      }
      return call.entry_for(address);
    }
  }
  return function;
}

}  // namespace amem
