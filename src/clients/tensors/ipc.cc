// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Memory with a tag that is exported to other processes, and that of others which is opened here.
#include "clients/tensors/tensor_client.h"
#include "memory/backing_steps.h"

namespace amem {
namespace {

/// Addresses of freed memory that stay reserved for the next allocation of their size.
constexpr size_t kMostSpare = 64;

}  // namespace

Result<std::optional<IpcHandleBytes>> TensorClient::export_handle(DeviceAddress address) {
  MutexLock lock(registry_.mutex);
  const Allocation* const allocation = find_around(address);
  if (allocation == nullptr) return std::optional<IpcHandleBytes>();
  return std::optional(AMEM_TRY(exchange_.make_ipc_handle(*registry_.find(allocation->id))));
}

std::optional<Result<DeviceAddress>> TensorClient::open(const IpcHandleBytes& bytes, int device) {
  const std::optional<Result<DriverHandle>> handle = exchange_.import_ipc_handle(bytes);
  if (!handle.has_value()) return std::nullopt;
  if (!handle->ok()) return Error(handle->error());
  MutexLock lock(registry_.mutex);
  return map_opened(handle->value(), device);
}

// The import has a handle reference for each open().
Result<DeviceAddress> TensorClient::map_opened(DriverHandle handle, int device) {
  Allocation* const allocation = registry_.find_handle(handle);
  if (allocation == nullptr)
    return make_error(ErrorKind::driver, driver_result::kInvalidValue, "the owner has freed it");
  for (auto& [address, opened] : opened_) {
    if (opened.allocation != allocation->id || opened.device != device) continue;
    ++opened.count;
    return address;
  }
  Backing& backing = registry_.backing_of(*allocation);
  // The size of an import is known at its first mapping.
  if (allocation->size_bytes == 0) allocation->size_bytes = allocation->origin.size_bytes;
  if (backing.size_bytes == 0) backing.size_bytes = allocation->size_bytes;
  const Location location{kLocationDevice, device};
  Result<DeviceAddress> address =
      place_backing(driver_, registry_, backing, {{location, kAccessReadWrite}});
  if (!address.ok()) {
    --allocation->handle_references;
    erase_if_unused(*allocation);
    return address;
  }
  registry_.add_mapping(*allocation, address.value(), allocation->size_bytes);
  opened_[address.value()] = {allocation->id, device, 1};
  return address;
}

void TensorClient::erase_if_unused(Allocation& allocation) {
  if (!registry_.is_unused(allocation)) return;
  exchange_.forget(allocation);
  erase_unused(driver_, registry_, allocation);
}

// After an error everything is as before, unless only the addresses are left.
Status TensorClient::unmap(DeviceAddress address) {
  const Mapping mapping = *registry_.find_mapping(address);
  Allocation& allocation = *registry_.find(mapping.allocation);
  Backing& backing = registry_.backing_of(allocation);
  const bool is_last = allocation.mappings.size() == 1 && allocation.handle_references == 1 &&
                       backing.allocations.size() == 1;
  const Status unmapped =
      is_last ? unmap_backing(driver_, backing) : unmap_at(driver_, backing, address);
  if (!unmapped.ok()) {
    (void)create_backing(driver_, backing);
    return unmapped;
  }
  if (spare_.size() == kMostSpare) {
    const AddressRange oldest = spare_.front();
    AMEM_TRY(driver_status(driver_, driver_.cuMemAddressFree(oldest.address, oldest.size_bytes),
                           "cuMemAddressFree(%zu bytes)", oldest.size_bytes));
    spare_.pop_front();
  }
  spare_.push_back({address, mapping.size_bytes});
  registry_.remove_placement(backing, address);
  registry_.remove_mapping(mapping);
  --allocation.handle_references;
  erase_if_unused(allocation);
  return ok_status();
}

std::optional<Status> TensorClient::close(DeviceAddress address) {
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
  AMEM_TRY(unmap(address));
  opened_.erase(address);
  return ok_status();
}

}  // namespace amem
