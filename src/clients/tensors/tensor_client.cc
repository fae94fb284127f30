// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/tensors/tensor_client.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>

#include "base/environment.h"
#include "contents/backup_file.h"
#include "driver/current_device.h"

namespace amem {

Status TensorClient::check_tag(const Tag& tag) const {
  if (!is_valid_tag(tag)) return invalid_tag(tag);
  if (is_reserved_tag(tag)) return misuse_error("the tag '%s' is reserved", tag.c_str());
  return ok_status();
}

// Relaxed, here and below: who has the address of an allocation comes after the allocation.
bool TensorClient::has(DeviceAddress address) {
  if (!was_used_.load(std::memory_order_relaxed)) return false;
  MutexLock lock(registry_.mutex);
  return find(address) != nullptr;
}

bool TensorClient::contains(DeviceAddress address) {
  if (!was_used_.load(std::memory_order_relaxed)) return false;
  MutexLock lock(registry_.mutex);
  return find_around(address) != nullptr;
}

bool TensorClient::owns(const Tag& tag) const { return is_valid_tag(tag) && !is_reserved_tag(tag); }

Tags TensorClient::tags() const {
  Tags tags;
  MutexLock lock(registry_.mutex);
  for (const auto& [id, backing] : registry_.backings())
    if (owns(backing.tag)) tags.insert(backing.tag);
  return tags;
}

AMEM_NOT_ANALYSED Result<DeviceAddress> TensorClient::allocate(size_t size_bytes, int device,
                                                               const Tag& tag, Kind kind) {
  if (tag != kSymmetricTag) AMEM_TRY(check_tag(tag));
  if (size_bytes == 0) return misuse_error("the size is 0");
  const MappedMemory::Request request = AMEM_TRY(memory_.request(size_bytes, device));
  was_used_ = true;
  MutexLock lock(registry_.mutex);
  const DeviceAddress address =
      AMEM_TRY(memory_.allocate(request, {.tag = tag, .kind = kind}, access_to(device)));
  created_.insert(registry_.find_mapping(address)->allocation);
  return address;
}

Result<DeviceAddress> TensorClient::allocate(size_t size_bytes, const Tag& tag, Kind kind) {
  return allocate(size_bytes, AMEM_TRY(handles_.device_of_caller()), tag, kind);
}

std::vector<Access> TensorClient::access_to(int device) const {
  std::vector<Access> access{{{kLocationDevice, device}, kAccessReadWrite}};
  for (const auto& [owner, accessor] : peers_)
    if (owner == device) access.push_back({{kLocationDevice, accessor}, kAccessReadWrite});
  return access;
}

AMEM_NOT_ANALYSED Status TensorClient::enable_peer_access(int owner) {
  const int device = AMEM_TRY(current_device(handles_.memory().driver()));
  MutexLock lock(registry_.mutex);
  if (device == owner || !peers_.insert({owner, device}).second) return ok_status();
  for (const AllocationId id : created_) {
    const Allocation& allocation = *registry_.find(id);
    if (allocation.device() != owner) continue;
    // An address at which another device has opened the memory has access of its own.
    for (const DeviceAddress address : allocation.mappings)
      if (!opened_.contains(address)) AMEM_TRY(memory_.replace_access(address, access_to(owner)));
  }
  return ok_status();
}

Status TensorClient::enable_peer_access(DriverContext owner) {
  return enable_peer_access(AMEM_TRY(device_of(handles_.memory().driver(), owner)));
}

std::optional<Tag> TensorClient::released_tag(DeviceAddress address) {
  MutexLock lock(registry_.mutex);
  const Mapping* const mapping = registry_.mapping_at(address);
  if (mapping == nullptr) return std::nullopt;
  const Backing& backing = registry_.backing_of(*registry_.find(mapping->allocation));
  return backing.is_here() ? std::nullopt : std::optional(backing.tag);
}

std::string TensorClient::released_text() {
  struct Sum {
    size_t count = 0, bytes = 0;
  };
  std::map<Tag, Sum> sums;
  MutexLock lock(registry_.mutex);
  for (const auto& [id, allocation] : registry_.allocations()) {
    const Backing& backing = registry_.backing_of(allocation);
    if (backing.is_here()) continue;
    Sum& sum = sums[backing.tag];
    ++sum.count;
    sum.bytes += allocation.size_bytes;
  }
  std::string text;
  for (const auto& [tag, sum] : sums)
    text += (text.empty() ? "" : ", ") + tag + " (" + std::to_string(sum.count) + " allocations, " +
            std::to_string(sum.bytes >> 20) + " MiB)";
  return text;
}

Result<TensorClient::Saved> TensorClient::find_saved(DeviceAddress address, size_t size_bytes) {
  const Mapping* const mapping = registry_.mapping_at(address);
  const Allocation* const allocation = find_around(address);
  if (allocation == nullptr || size_bytes > mapping->end() - address)
    return misuse_error("%zu bytes at 0x%" PRIx64
                        " are not in one allocation with a tag (memory of cuMemCreate(), such as "
                        "an expandable segment of PyTorch, cannot be read)",
                        size_bytes, address);
  const Backing& backing = registry_.backing_of(*allocation);
  // A resume that has failed keeps what is saved. Contents of Kind::retain change after a resume.
  const bool is_saved = backing.state == BackingState::resident
                            ? backing.saved != nullptr && allocation->kind != Kind::retain
                            : backing.state != BackingState::saving;
  if (!is_saved || !is_kept(allocation->kind))
    return misuse_error("the memory at 0x%" PRIx64 " is not paused with its contents kept",
                        address);
  Saved found{
      backing.saved, {}, backing.saved_file, address - mapping->address + allocation->offset_bytes};
  if (found.file.file != nullptr)
    for (const Piece& piece : backing.saved_pieces)
      found.ranges.push_back({piece.offset_bytes, {nullptr, piece.size_bytes}});
  else if (backing.saved != nullptr)
    found.ranges = copy_ranges(backing.saved_pieces, *backing.saved);
  return found;
}

Status TensorClient::read_saved(DeviceAddress address, size_t size_bytes, void* to) {
  const Saved found = AMEM_TRY([&] {
    MutexLock lock(registry_.mutex);
    return find_saved(address, size_bytes);
  }());
  memset(to, 0, size_bytes);
  const size_t begin = found.offset_bytes, end = begin + size_bytes;
  size_t in_file = found.file.offset_bytes;
  for (const auto& [offset, on_host] : found.ranges) {
    const size_t first = std::max(begin, offset), last = std::min(end, offset + on_host.size_bytes);
    auto* const wanted = static_cast<unsigned char*>(to) + (first - begin);
    if (first < last && on_host.base != nullptr)
      memcpy(wanted, on_host.base + (first - offset), last - first);
    else if (first < last)
      AMEM_TRY(found.file.file->read(in_file + (first - offset), wanted, last - first));
    in_file += on_host.size_bytes;
  }
  return ok_status();
}

Result<const void*> TensorClient::saved(DeviceAddress address, size_t size_bytes) {
  MutexLock lock(registry_.mutex);
  const Saved found = AMEM_TRY(find_saved(address, size_bytes));
  const size_t begin = found.offset_bytes;
  for (const CopyRange& range : found.ranges)
    if (range.on_host.base != nullptr && begin >= range.offset_bytes &&
        begin + size_bytes <= range.offset_bytes + range.on_host.size_bytes)
      return range.on_host.base + (begin - range.offset_bytes);
  return misuse_error("the contents at 0x%" PRIx64
                      " are not contiguous in host memory: call amemReadBackup()",
                      address);
}

const Allocation* TensorClient::find(DeviceAddress address) const {
  const Mapping* const mapping = registry_.find_mapping(address);
  const bool is_own =
      mapping != nullptr && created_.contains(mapping->allocation) && !opened_.contains(address);
  return is_own ? registry_.find(mapping->allocation) : nullptr;
}

const Allocation* TensorClient::find_around(DeviceAddress address) const {
  const Mapping* const mapping = registry_.mapping_at(address);
  return mapping != nullptr ? find(mapping->address) : nullptr;
}

void TensorClient::set_unused(std::vector<AddressRange> ranges) {
  MutexLock lock(unused_mutex_);
  if (ranges.empty()) unused_is_valid_ = true;
  unused_ = unused_is_valid_ ? std::move(ranges) : std::vector<AddressRange>();
  std::sort(unused_.begin(), unused_.end(),
            [](const auto& left, const auto& right) { return left.address < right.address; });
}

// Ranges begin and end where pages do that the search for zero pages compares.
std::vector<Piece> TensorClient::live_ranges(const Allocation& allocation) const {
  std::vector<Piece> live = Client::live_ranges(allocation);
  if (live.empty() || allocation.mappings.empty()) return live;
  const DeviceAddress begin = allocation.mappings.front();
  MutexLock lock(unused_mutex_);
  for (const auto& [address, size_bytes] : unused_) {
    if (address < begin || address - begin >= allocation.size_bytes) continue;
    Piece& last = live.back();
    const size_t first_byte = std::max(whole_slots(address - begin), last.offset_bytes);
    const size_t end = address - begin + size_bytes;
    const size_t left = end < allocation.size_bytes ? end / kSlotBytes * kSlotBytes : end;
    if (left <= first_byte) continue;
    last.size_bytes = first_byte - last.offset_bytes;
    if (last.size_bytes == 0) live.pop_back();
    if (left >= allocation.size_bytes) return live;
    live.push_back({left, allocation.size_bytes - left});
  }
  return live;
}

Status TensorClient::make_persistent(DeviceAddress address, const char* because) {
  MutexLock lock(registry_.mutex);
  const Allocation* const allocation = find_around(address);
  if (allocation == nullptr || !registry_.backing_of(*allocation).is_here())
    return misuse_error("the memory at 0x%" PRIx64 " is paused or was freed", address);
  registry_.find(allocation->id)->make_persistent(because);
  return ok_status();
}

AMEM_NOT_ANALYSED Status TensorClient::free(DeviceAddress address) {
  const auto unknown = [address] {
    return misuse_error("0x%" PRIx64 " is not an address that amemMalloc() returned", address);
  };
  int device = 0;
  {
    MutexLock lock(registry_.mutex);
    const Allocation* const allocation = find(address);
    if (allocation == nullptr) return unknown();
    device = allocation->device();
  }
  AMEM_TRY(devices_.drain_on_this_thread(device));
  MutexLock lock(registry_.mutex);
  const Allocation* allocation = find(address);
  if (allocation == nullptr) return unknown();
  const AllocationId id = allocation->id;
  if (!registry_.wait_copied(id, Deadline::after_ms(timeout_ms_)))
    return timeout_error("its contents are still being copied");
  allocation = find(address);
  if (allocation == nullptr || allocation->id != id) return unknown();
  AMEM_TRY(memory_.free(address));
  created_.erase(id);
  MutexLock unused(unused_mutex_);
  unused_is_valid_ = false;
  unused_.clear();
  return ok_status();
}

// --- Memory that is exported to other processes, and that of others which is opened here

Result<std::optional<IpcHandleBytes>> TensorClient::export_handle(DeviceAddress address) {
  MutexLock lock(registry_.mutex);
  const Allocation* const allocation = find_around(address);
  if (allocation == nullptr) return std::optional<IpcHandleBytes>();
  return std::optional(
      AMEM_TRY(handles_.exchange().make_ipc_handle(*registry_.find(allocation->id))));
}

// The import has a handle reference for each open().
AMEM_NOT_ANALYSED std::optional<Result<DeviceAddress>> TensorClient::open(
    const IpcHandleBytes& bytes, int device) {
  const std::optional<Result<DriverHandle>> handle = handles_.exchange().import_ipc_handle(bytes);
  if (!handle.has_value()) return std::nullopt;
  if (!handle->ok()) return Error(handle->error());
  MutexLock lock(registry_.mutex);
  Allocation* const allocation = registry_.find_handle(handle->value());
  if (allocation == nullptr)
    return make_error(ErrorKind::driver, driver_result::kInvalidValue, "the owner has freed it");
  for (auto& [address, opened] : opened_) {
    if (opened.allocation != allocation->id || opened.device != device) continue;
    ++opened.count;
    return address;
  }
  Result<DeviceAddress> address =
      memory_.map_import(handle->value(), {{{kLocationDevice, device}, kAccessReadWrite}});
  if (address.ok())
    opened_[address.value()] = {allocation->id, device, 1};
  else
    handles_.release_unused_locked();
  return address;
}

Result<DeviceAddress> TensorClient::open(const IpcHandleBytes& bytes) {
  auto address = open(bytes, AMEM_TRY(handles_.device_of_caller()));
  if (!address.has_value()) return misuse_error("this is not a handle of amem's memory");
  return std::move(*address);
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
