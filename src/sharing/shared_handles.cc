// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sharing/shared_handles.h"

#include <cstdint>
#include <cstring>

#include "base/log.h"
#include "driver/current_device.h"
#include "driver/work_contexts.h"
#include "memory/backing_steps.h"

namespace amem {

AMEM_NOT_ANALYSED DriverResult SharedHandles::export_handle(void* shareable, DriverHandle handle,
                                                            int type, unsigned long long flags) {
  const Driver& driver = memory_.driver();
  if (!is_our_handle(handle))
    return driver.cuMemExportToShareableHandle(shareable, handle, type, flags);
  MutexLock lock(registry_.mutex);
  Allocation* allocation = registry_.find_handle(handle);
  if (allocation == nullptr || shareable == nullptr) return driver_result::kInvalidValue;
  if (type == kHandleTypeFabric && export_as_token(*allocation, shareable))
    return driver_result::kSuccess;
  if (type != kHandleTypeFd) allocation = memory_.find_copied(handle);
  if (allocation == nullptr) return driver_result::kInvalidValue;
  const Backing& backing = registry_.backing_of(*allocation);
  if (type != kHandleTypeFd) {
    // In a slab it would be that of all buffers.
    if (allocation->offset_bytes != 0 || !backing.is_here()) return driver_result::kInvalidValue;
    allocation->make_persistent("exported as a fabric handle");
    return driver.cuMemExportToShareableHandle(shareable, backing.handle, type, flags);
  }
  // The driver does not export imports, or memory without a shareable handle. The error is the
  // driver's.
  if (allocation->is_import || (allocation->properties.requested_handle_types & kHandleTypeFd) == 0)
    return driver.cuMemExportToShareableHandle(shareable, backing.handle, type, flags);
  Result<int> token = exchange_.make_token(*allocation);
  if (!token.ok()) {
    AMEM_LOG(error, allocation->device(), "cannot export an allocation: %s",
             token.error().message.c_str());
    return driver_result::kUnknown;
  }
  *static_cast<int*>(shareable) = token.value();
  return driver_result::kSuccess;
}

/// False if the driver's fabric handle is needed, or if the driver would refuse one.
AMEM_NOT_ANALYSED bool SharedHandles::export_as_token(Allocation& allocation, void* fabric_handle) {
  constexpr int kBoth = kHandleTypeFabric | kHandleTypeFd;
  if (allocation.is_import || registry_.backing_of(allocation).is_slab ||
      (allocation.properties.requested_handle_types & kBoth) != kBoth)
    return false;
  const auto token = exchange_.make_fabric_handle(allocation);
  if (!token.has_value()) return false;
  if (token->ok())
    std::memcpy(fabric_handle, token->value().data(), kIpcHandleBytes);
  else
    AMEM_LOG(warn, allocation.device(), "cannot export an allocation to this host alone: %s",
             token->error().message.c_str());
  return token->ok();
}

bool SharedHandles::import_fabric(const void* shareable, DriverHandle* handle,
                                  DriverResult* result) {
  IpcHandleBytes bytes;
  std::memcpy(bytes.data(), shareable, bytes.size());
  const auto imported = exchange_.import_ipc_handle(bytes);
  if (!imported.has_value()) return false;
  if (imported->ok())
    *handle = imported->value();
  else
    *result = imported->error().kind == ErrorKind::driver ? imported->error().code
                                                          : driver_result::kUnknown;
  return true;
}

DriverResult SharedHandles::import_handle(DriverHandle* handle, void* shareable, int type) {
  const bool is_fabric = type == kHandleTypeFabric && shareable != nullptr;
  if (handle != nullptr && (type == kHandleTypeFd || is_fabric) && memory_.gives_handles()) {
    const int fd = static_cast<int>(reinterpret_cast<intptr_t>(shareable));
    DriverResult result = driver_result::kSuccess;
    ++imports_running_;
    const bool is_token = is_fabric ? import_fabric(shareable, handle, &result)
                                    : exchange_.import_token(fd, handle, &result);
    --imports_running_;
    if (is_token) return result;
  }
  return memory_.driver().cuMemImportFromShareableHandle(handle, shareable, type);
}

Result<int> SharedHandles::device_of_caller() {
  const int device = AMEM_TRY(current_device(memory_.driver()));
  // The application may use the memory in a context that it has made.
  note_work_context(memory_.driver());
  exchange_.start_service();
  return device;
}

AMEM_NOT_ANALYSED void SharedHandles::release_unused_locked() {
  for (const AllocationId id : memory_.take_unused_imports()) {
    const Allocation& import = *registry_.find(id);
    exchange_.forget(import);
    erase_unused(memory_.driver(), registry_, import);
  }
}

}  // namespace amem
