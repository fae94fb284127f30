// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "registry/registry.h"

#include <algorithm>

namespace amem {

Allocation& Registry::add_local(size_t size_bytes, const AllocationProperties& properties,
                                DriverHandle backing) {
  used_.store(true, std::memory_order_relaxed);
  const AllocationId id = next_id_++;
  Allocation& allocation = allocations_[id];
  allocation.id = id;
  allocation.size_bytes = size_bytes;
  allocation.properties = properties;
  allocation.handle_references = 1;
  allocation.backing.handle = backing;
  return allocation;
}

Allocation& Registry::add_import(const ImportOrigin& origin) {
  used_.store(true, std::memory_order_relaxed);
  const auto key = std::make_pair(origin.owner, origin.allocation);
  if (auto known = imports_.find(key); known != imports_.end()) {
    Allocation& allocation = allocations_[known->second];
    ++allocation.handle_references;
    return allocation;
  }
  const AllocationId id = next_id_++;
  imports_[key] = id;
  Allocation& allocation = allocations_[id];
  allocation.id = id;
  allocation.handle_references = 1;
  allocation.is_import = true;
  allocation.origin = origin;
  allocation.state = AllocationState::let_go;
  return allocation;
}

Allocation* Registry::find_handle(DriverHandle handle) {
  return is_our_handle(handle) ? find(allocation_of(handle)) : nullptr;
}

Allocation* Registry::find(AllocationId id) {
  auto found = allocations_.find(id);
  return found == allocations_.end() ? nullptr : &found->second;
}

Allocation* Registry::find_import(const InstanceId& owner, AllocationId allocation) {
  auto found = imports_.find({owner, allocation});
  return found == imports_.end() ? nullptr : find(found->second);
}

Mapping* Registry::mapping_at(DeviceAddress address) {
  auto after = mappings_.upper_bound(address);
  if (after == mappings_.begin()) return nullptr;
  Mapping& candidate = std::prev(after)->second;
  return address < candidate.end() ? &candidate : nullptr;
}

std::vector<Mapping*> Registry::mappings_in(DeviceAddress address, size_t size_bytes) {
  std::vector<Mapping*> found;
  auto at = mappings_.upper_bound(address);
  if (at != mappings_.begin() && std::prev(at)->second.end() > address) --at;
  for (; at != mappings_.end() && at->first < address + size_bytes; ++at)
    found.push_back(&at->second);
  return found;
}

Mapping& Registry::add_mapping(Allocation& allocation, DeviceAddress address, size_t size_bytes) {
  if (allocation.size_bytes == 0) allocation.size_bytes = size_bytes;
  allocation.mappings.push_back(address);
  Mapping& mapping = mappings_[address];
  mapping = Mapping{address, size_bytes, allocation.id, {}, allocation.backing.is_here()};
  return mapping;
}

void Registry::remove_mapping(const Mapping& mapping) {
  const DeviceAddress address = mapping.address;
  if (Allocation* allocation = find(mapping.allocation)) std::erase(allocation->mappings, address);
  mappings_.erase(address);
}

void Registry::erase(AllocationId id) {
  const Allocation* allocation = find(id);
  if (allocation == nullptr) return;
  if (allocation->is_import)
    imports_.erase({allocation->origin.owner, allocation->origin.allocation});
  allocations_.erase(id);
}

std::vector<AllocationId> Registry::ids() const {
  std::vector<AllocationId> all;
  all.reserve(allocations_.size());
  for (const auto& [id, allocation] : allocations_) all.push_back(id);
  return all;
}

Mapping* Registry::find_mapping(DeviceAddress start) {
  auto found = mappings_.find(start);
  return found == mappings_.end() ? nullptr : &found->second;
}

bool Registry::wait_copied(AllocationId id, Deadline deadline) {
  return copied_.wait_until(mutex, deadline, [&]() AMEM_REQUIRES(mutex) {
    const Allocation* allocation = find(id);
    return allocation == nullptr || !allocation->copying;
  });
}

void merge_access(std::vector<Access>& list, const Access& access) {
  for (Access& known : list) {
    if (known.location == access.location) {
      known.flags = access.flags;
      return;
    }
  }
  list.push_back(access);
}

}  // namespace amem
