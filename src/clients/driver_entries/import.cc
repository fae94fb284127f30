// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/driver_entries/import.h"

#include <atomic>

#include "base/log.h"

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

DriverResult import_handle(SharedHandles& handles, DriverHandle* handle, void* shareable,
                           int type) {
  const DriverResult result = handles.import_handle(handle, shareable, type);
  if (result != driver_result::kSuccess || type != kHandleTypeFd || is_our_handle(*handle))
    return result;
  // Multicast objects and host memory are not amem's anywhere.
  AllocationProperties properties{};
  if (handles.memory().driver().cuMemGetAllocationPropertiesFromHandle(&properties, *handle) ==
          driver_result::kSuccess &&
      properties.location.type == kLocationDevice)
    warn_of_peer_without_amem(handles.exchange());
  return result;
}

}  // namespace amem
