// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Memory with a tag that is exported to other processes, and that of others which is opened here.
#include "clients/tensors/tensor_client.h"

namespace amem {

Result<std::optional<IpcHandleBytes>> TensorClient::export_handle(DeviceAddress address) {
  MutexLock lock(registry_.mutex);
  const Allocation* const allocation = find_around(address);
  if (allocation == nullptr) return std::optional<IpcHandleBytes>();
  return std::optional(
      AMEM_TRY(handles_.exchange().make_ipc_handle(*registry_.find(allocation->id))));
}

std::optional<Result<DeviceAddress>> TensorClient::open(const IpcHandleBytes& bytes, int device) {
  const std::optional<Result<DriverHandle>> handle = handles_.exchange().import_ipc_handle(bytes);
  if (!handle.has_value()) return std::nullopt;
  if (!handle->ok()) return Error(handle->error());
  MutexLock lock(registry_.mutex);
  return map_opened(handle->value(), device);
}

Result<DeviceAddress> TensorClient::open(const IpcHandleBytes& bytes) {
  auto address = open(bytes, AMEM_TRY(handles_.device_of_caller()));
  if (!address.has_value())
    return make_error(ErrorKind::misuse, 0, "this is not a handle of amem's memory");
  return std::move(*address);
}

// The import has a handle reference for each open().
AMEM_NOT_ANALYSED Result<DeviceAddress> TensorClient::map_opened(DriverHandle handle, int device) {
  Allocation* const allocation = registry_.find_handle(handle);
  if (allocation == nullptr)
    return make_error(ErrorKind::driver, driver_result::kInvalidValue, "the owner has freed it");
  for (auto& [address, opened] : opened_) {
    if (opened.allocation != allocation->id || opened.device != device) continue;
    ++opened.count;
    return address;
  }
  Result<DeviceAddress> address =
      memory_.map_import(handle, {{{kLocationDevice, device}, kAccessReadWrite}});
  if (address.ok())
    opened_[address.value()] = {allocation->id, device, 1};
  else
    handles_.release_unused_locked();
  return address;
}

AMEM_NOT_ANALYSED std::optional<Status> TensorClient::close(DeviceAddress address) {
  int device = 0;
  {
    MutexLock lock(registry_.mutex);
    const auto opened = opened_.find(address);
    if (opened == opened_.end()) return std::nullopt;
    device = opened->second.device;
  }
  AMEM_TRY(devices_.drain_on_this_thread(device));
  MutexLock lock(registry_.mutex);
  const auto opened = opened_.find(address);
  if (opened == opened_.end()) return std::nullopt;
  if (opened->second.count > 1) {
    --opened->second.count;
    --registry_.find(opened->second.allocation)->handle_references;
    return ok_status();
  }
  const Status freed = memory_.free(address);
  handles_.release_unused_locked();
  AMEM_TRY(freed);
  opened_.erase(address);
  return ok_status();
}

}  // namespace amem
