// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "memory/registry.h"

#include <algorithm>
#include <utility>

namespace amem {

bool is_persistent(const Backing& backing, const AllocationMap& allocations) {
  const auto stays = [&](const auto& entry) {
    const Allocation& allocation = allocations.at(entry.second);
    return allocation.kind == Kind::persistent || allocation.registering > 0;
  };
  return backing.is_staying ||
         std::any_of(backing.allocations.begin(), backing.allocations.end(), stays);
}

namespace {

/// nullptr if the map does not contain the key.
template <typename Map>
typename Map::mapped_type* find_in(Map& map, const typename Map::key_type& key) {
  const auto found = map.find(key);
  return found == map.end() ? nullptr : &found->second;
}

}  // namespace

Backing& Registry::add_backing(size_t size_bytes, const AllocationProperties& properties,
                               DriverHandle handle, const Tag& tag) {
  const BackingId id = next_backing_++;
  Backing& backing = backings_[id];
  backing.id = id;
  backing.size_bytes = size_bytes;
  backing.properties = properties;
  backing.handle = handle;
  backing.tag = tag;
  return backing;
}

Allocation& Registry::add_to_slab(Backing& backing, size_t offset_bytes, size_t size_bytes) {
  used_.store(true, std::memory_order_relaxed);
  const AllocationId id = next_id_++;
  Allocation& allocation = allocations_[id];
  allocation.id = id;
  allocation.size_bytes = size_bytes;
  allocation.properties = backing.properties;
  allocation.handle_references = 1;
  allocation.backing = backing.id;
  allocation.offset_bytes = offset_bytes;
  backing.allocations[offset_bytes] = id;
  backing.used_end_bytes = std::max(backing.used_end_bytes, whole_slots(offset_bytes + size_bytes));
  backing.filled_bytes += whole_slots(size_bytes);
  return allocation;
}

Allocation& Registry::add_local(size_t size_bytes, const AllocationProperties& properties,
                                DriverHandle handle, size_t backing_bytes, const Tag& tag) {
  return add_to_slab(add_backing(backing_bytes, properties, handle, tag), 0, size_bytes);
}

Backing& Registry::add_slab(size_t size_bytes, const AllocationProperties& properties,
                            DriverHandle handle, const Tag& tag) {
  Backing& slab = add_backing(size_bytes, properties, handle, tag);
  slab.is_slab = true;
  return slab;
}

Allocation& Registry::add_import(const RemoteAllocation& origin) {
  Backing* backing = find_import(origin.owner, origin.backing);
  if (backing == nullptr) {
    backing = &add_backing(origin.slab_bytes, {}, 0, origin.tag);
    backing->is_slab = origin.slab_bytes != 0;
    backing->state = BackingState::revoked;
    backing->is_import = true;
    backing->owner = origin.owner;
    backing->id_at_owner = origin.backing;
    imports_[{origin.owner, origin.backing}] = backing->id;
  }
  const auto known = backing->allocations.find(origin.offset_bytes);
  if (known != backing->allocations.end()) {
    Allocation& allocation = allocations_.at(known->second);
    ++allocation.handle_references;
    return allocation;
  }
  Allocation& allocation = add_to_slab(*backing, origin.offset_bytes, origin.size_bytes);
  allocation.is_import = true;
  allocation.origin = origin;
  return allocation;
}

void Registry::leave_backing(const Allocation& allocation) {
  Backing& backing = backing_of(allocation);
  backing.allocations.erase(allocation.offset_bytes);
  backing.filled_bytes -= whole_slots(allocation.size_bytes);
}

void Registry::move_out_of_slab(Allocation& allocation, DriverHandle handle, size_t backing_bytes) {
  leave_backing(allocation);
  Backing& own =
      add_backing(backing_bytes, allocation.properties, handle, backing_of(allocation).tag);
  own.allocations[0] = allocation.id;
  own.filled_bytes = own.used_end_bytes = whole_slots(allocation.size_bytes);
  allocation.backing = own.id;
  allocation.offset_bytes = 0;
}

void Registry::move_into_slot(Allocation& allocation, const Allocation& vacated) {
  leave_backing(allocation);
  Backing& slab = backing_of(vacated);
  slab.allocations[vacated.offset_bytes] = allocation.id;
  allocation.backing = slab.id;
  allocation.offset_bytes = vacated.offset_bytes;
  allocation.properties = slab.properties;
  allocation.is_buffer = vacated.is_buffer;
  allocations_.erase(vacated.id);
}

Allocation* Registry::find_handle(DriverHandle handle) {
  return is_our_handle(handle) ? find(allocation_of(handle)) : nullptr;
}

Allocation* Registry::find(AllocationId id) { return find_in(allocations_, id); }

Backing* Registry::find_backing(BackingId id) { return find_in(backings_, id); }

std::vector<Backing*> Registry::find_backings(const std::vector<BackingId>& ids) {
  std::vector<Backing*> found;
  for (const BackingId id : ids)
    if (Backing* const backing = find_backing(id)) found.push_back(backing);
  return found;
}

Backing* Registry::find_import(const InstanceId& owner, BackingId id_at_owner) {
  const BackingId* const id = find_in(imports_, {owner, id_at_owner});
  return id == nullptr ? nullptr : find_backing(*id);
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
  allocation.was_mapped = true;
  allocation.mappings.push_back(address);
  return mappings_[address] = Mapping{address, size_bytes, allocation.id};
}

void Registry::remove_mapping(const Mapping& mapping) {
  const DeviceAddress address = mapping.address;
  if (Allocation* allocation = find(mapping.allocation)) std::erase(allocation->mappings, address);
  mappings_.erase(address);
}

Mapping* Registry::find_mapping(DeviceAddress start) { return find_in(mappings_, start); }

Placement& Registry::add_placement(Backing& backing, DeviceAddress address, size_t size_bytes) {
  if (backing.is_slab) {
    SlabAddresses& addresses = slab_addresses_[address];
    addresses.size_bytes = size_bytes;
    addresses.slab = backing.id;
  }
  return backing.placements.emplace_back(Placement{address, size_bytes, {}, false, false, false});
}

void Registry::remove_placement(Backing& backing, DeviceAddress address) {
  std::erase_if(backing.placements,
                [&](const Placement& placement) { return placement.address == address; });
  if (backing.is_slab) slab_addresses_.erase(address);
}

std::map<DeviceAddress, Registry::SlabAddresses>::iterator Registry::slab_addresses(
    DeviceAddress address) {
  auto after = slab_addresses_.upper_bound(address);
  if (after == slab_addresses_.begin()) return slab_addresses_.end();
  const auto found = std::prev(after);
  return address < found->first + found->second.size_bytes ? found : slab_addresses_.end();
}

Backing* Registry::slab_at(DeviceAddress address) {
  const auto found = slab_addresses(address);
  return found == slab_addresses_.end() ? nullptr : find_backing(found->second.slab);
}

Allocation* Registry::vacated_at(DeviceAddress address) {
  const Backing* slab = slab_at(address);
  if (slab == nullptr || slab->is_import) return nullptr;
  const auto found = slab->allocations.find(address - slab_addresses(address)->first);
  if (found == slab->allocations.end()) return nullptr;
  Allocation& allocation = allocations_.at(found->second);
  return allocation.is_unreferenced() && is_reserved(allocation) ? &allocation : nullptr;
}

size_t Registry::former_slab_bytes(DeviceAddress address) {
  const SlabAddresses* const found = find_in(slab_addresses_, address);
  return found == nullptr || found->slab != 0 ? 0 : found->size_bytes;
}

void Registry::add_reservation(DeviceAddress address) {
  ++slab_addresses(address)->second.reservations[address];
}

bool Registry::remove_reservation(DeviceAddress address, AddressRange* unused) {
  const auto found = slab_addresses(address);
  if (found == slab_addresses_.end()) return false;
  SlabAddresses& addresses = found->second;
  // Ignores an address that the client has not received.
  const auto counted = addresses.reservations.find(address);
  if (counted != addresses.reservations.end() && --counted->second == 0)
    addresses.reservations.erase(counted);
  if (!addresses.reservations.empty() || addresses.slab != 0) return true;
  *unused = {found->first, addresses.size_bytes};
  slab_addresses_.erase(found);
  return true;
}

int Registry::reservations_of(DeviceAddress address) {
  const auto found = slab_addresses(address);
  if (found == slab_addresses_.end()) return 0;
  const int* const count = find_in(found->second.reservations, address);
  return count == nullptr ? 0 : *count;
}

bool Registry::is_reserved(const Allocation& allocation) {
  const Backing& slab = backing_of(allocation);
  return slab.is_slab &&
         std::any_of(slab.placements.begin(), slab.placements.end(),
                     [&](const Placement& at) AMEM_REQUIRES(mutex) {
                       return reservations_of(at.address + allocation.offset_bytes) > 0;
                     });
}

bool Registry::is_unused(const Allocation& allocation) {
  if (!allocation.is_unreferenced()) return false;
  if (!allocation.is_import && is_reserved(allocation)) return false;
  // A late write of an importer would reach the next allocation in this slot.
  return allocation.importers.empty() || !backing_of(allocation).is_slab;
}

void Registry::erase(AllocationId id) {
  const Allocation* allocation = find(id);
  if (allocation == nullptr) return;
  leave_backing(*allocation);
  allocations_.erase(id);
}

std::vector<AddressRange> Registry::erase_backing(BackingId id) {
  std::vector<AddressRange> unused;
  const Backing* backing = find_backing(id);
  if (backing == nullptr) return unused;
  if (backing->is_import) imports_.erase({backing->owner, backing->id_at_owner});
  for (const Placement& placement : backing->placements) {
    if (placement.is_for_copies) unused.push_back({placement.address, placement.size_bytes});
    const auto addresses = slab_addresses_.find(placement.address);
    if (!backing->is_slab || addresses == slab_addresses_.end()) continue;
    addresses->second.slab = 0;
    if (!addresses->second.reservations.empty()) continue;
    unused.push_back({placement.address, placement.size_bytes});
    slab_addresses_.erase(addresses);
  }
  backings_.erase(id);
  return unused;
}

bool Registry::wait_copied(AllocationId id, Deadline deadline) {
  return copied_.wait_until(mutex, deadline, [&]() AMEM_REQUIRES(mutex) {
    const Allocation* allocation = find(id);
    return allocation == nullptr || !backing_of(*allocation).copying;
  });
}

bool Registry::wait_copied(DeviceAddress address, size_t size_bytes, Deadline deadline) {
  return copied_.wait_until(mutex, deadline, [&]() AMEM_REQUIRES(mutex) {
    const std::vector<Mapping*> mappings = mappings_in(address, size_bytes);
    return std::none_of(mappings.begin(), mappings.end(),
                        [&](const Mapping* mapping) AMEM_REQUIRES(mutex) {
                          return backing_of(allocations_.at(mapping->allocation)).copying > 0;
                        });
  });
}

bool grant(std::vector<Access>& list, const Access& access, bool widens) {
  const auto known = std::find_if(list.begin(), list.end(), [&](const Access& each) {
    return each.location == access.location;
  });
  if (known == list.end()) {
    list.push_back(access);
    return true;
  }
  // The flags are bits: none, read, read and write (CUDA Driver API, CUmemAccess_flags).
  const int32_t flags = widens ? known->flags | access.flags : access.flags;
  return std::exchange(known->flags, flags) != flags;
}

}  // namespace amem
