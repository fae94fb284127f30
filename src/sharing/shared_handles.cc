// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sharing/shared_handles.h"

#include <cstdint>

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
  Allocation* const allocation =
      type == kHandleTypeFd ? registry_.find_handle(handle) : memory_.find_copied(handle);
  if (allocation == nullptr || shareable == nullptr) return driver_result::kInvalidValue;
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

DriverResult SharedHandles::import_handle(DriverHandle* handle, void* shareable, int type) {
  if (handle != nullptr && type == kHandleTypeFd && memory_.gives_handles()) {
    const int fd = static_cast<int>(reinterpret_cast<intptr_t>(shareable));
    DriverResult result = driver_result::kSuccess;
    ++imports_running_;
    const bool is_token = exchange_.import_token(fd, handle, &result);
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
