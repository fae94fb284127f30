// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/driver_entries/import.h"

#include <atomic>

#include "base/log.h"

namespace amem {

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

}  // namespace amem
