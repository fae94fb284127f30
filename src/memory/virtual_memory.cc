// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "memory/virtual_memory.h"

#include <algorithm>
#include <utility>

#include "base/environment.h"
#include "base/log.h"
#include "memory/backing_steps.h"
#include "memory/registered_range.h"

namespace amem {
namespace {

constexpr char kBound[] = "bound to multicast (NVLS)";
constexpr char kEndpoint[] = "bound to a logical endpoint";

/// The driver's result, and a line in the log for what the driver would not have done.
DriverResult result_of(const Error& error, int device) {
  AMEM_LOG(error, device, "%s", error.message.c_str());
  return error.kind == ErrorKind::driver ? error.code : driver_result::kUnknown;
}

void keep_all(Registry& registry, const Backing& backing, const char* because)
    AMEM_REQUIRES(registry.mutex) {
  for (const auto& [offset_bytes, id] : backing.allocations)
    registry.find(id)->make_persistent(because);
}

}  // namespace

DriverResult VirtualMemory::still_copied() const {
  AMEM_LOG(error, -1, "a driver call fails: its memory is still copied after %ld ms",
           settings_.timeout_ms);
  return driver_result::kNotReady;
}

Allocation* VirtualMemory::find_copied(DriverHandle handle) {
  if (registry_.wait_copied(allocation_of(handle), Deadline::after_ms(settings_.timeout_ms)))
    return registry_.find_handle(handle);
  (void)still_copied();
  return nullptr;
}

void VirtualMemory::erase_if_unused(const Allocation& allocation) {
  if (!registry_.is_unused(allocation)) return;
  if (!allocation.is_import) return erase_unused(driver_, registry_, allocation);
  // Another thread may have imported and released it again meanwhile.
  if (std::find(unused_imports_.begin(), unused_imports_.end(), allocation.id) ==
      unused_imports_.end())
    unused_imports_.push_back(allocation.id);
  has_unused_imports_.store(true, std::memory_order_relaxed);
}

std::vector<AllocationId> VirtualMemory::take_unused_imports() {
  has_unused_imports_.store(false, std::memory_order_relaxed);
  std::vector<AllocationId> taken = std::exchange(unused_imports_, {});
  std::erase_if(taken, [&](AllocationId id) AMEM_REQUIRES(registry_.mutex) {
    const Allocation* const allocation = registry_.find(id);
    return allocation == nullptr || !registry_.is_unused(*allocation);
  });
  return taken;
}

void VirtualMemory::refuse_pauses(std::string because) {
  MutexLock lock(registry_.mutex);
  if (registry_.refusal.empty()) registry_.refusal = std::move(because);
}

void VirtualMemory::stop_tagging_handles(const std::string& look_up) {
  gives_handles_ = false;
  refuse_pauses(look_up +
                " returned a function that this version of amem does not know: the driver "
                "has another form of it, or another library wraps it; update amem, or "
                "start without that library");
}

// --- Handles

DriverResult VirtualMemory::create(DriverHandle* handle, size_t size_bytes,
                                   const AllocationProperties* properties, unsigned long long flags,
                                   const Origin& origin) {
  if (handle == nullptr || properties == nullptr || properties->location.type != kLocationDevice ||
      !gives_handles_)
    return driver_.cuMemCreate(handle, size_bytes, properties, flags);
  AllocationId id =
      origin.in_slab && flags == 0 ? slabs_.allocate(size_bytes, *properties, origin) : 0;
  if (id == 0) {
    DriverHandle own = 0;
    const size_t bytes = slabs_.driver_bytes(size_bytes);
    // Processes of this host share memory by descriptors, whatever its client hands out.
    AllocationProperties shareable = *properties;
    if (properties->requested_handle_types == kHandleTypeFabric)
      shareable.requested_handle_types |= kHandleTypeFd;
    const DriverResult result = driver_.cuMemCreate(&own, bytes, &shareable, flags);
    if (result != driver_result::kSuccess) return result;
    MutexLock lock(registry_.mutex);
    Allocation& allocation = registry_.add_local(size_bytes, shareable, own, bytes, origin.tag);
    allocation.set_origin(origin);
    id = allocation.id;
  }
  *handle = handle_of(id);
  return driver_result::kSuccess;
}

DriverResult VirtualMemory::release(DriverHandle handle) {
  if (!is_our_handle(handle)) {
    multicast_released(handle);
    return driver_.cuMemRelease(handle);
  }
  MutexLock lock(registry_.mutex);
  Allocation* const allocation = find_copied(handle);
  if (allocation == nullptr || allocation->handle_references == 0)
    return driver_result::kInvalidValue;
  --allocation->handle_references;
  erase_if_unused(*allocation);
  return driver_result::kSuccess;
}

DriverResult VirtualMemory::retain(DriverHandle* handle, void* address) {
  if (handle != nullptr) {
    const auto at = reinterpret_cast<DeviceAddress>(address);
    MutexLock lock(registry_.mutex);
    const Mapping* const mapping = registry_.mapping_at(at);
    Allocation* const found = mapping != nullptr ? registry_.find(mapping->allocation) : nullptr;
    // The application's own memory has no handle yet that was given out.
    if (found != nullptr && (gives_handles_ || is_reserved_tag(registry_.backing_of(*found).tag))) {
      ++found->handle_references;
      *handle = handle_of(found->id);
      return driver_result::kSuccess;
    }
    // An address between two allocations of a slab: mapped in the driver, but not by its caller.
    if (registry_.slab_at(at) != nullptr) return driver_result::kInvalidValue;
  }
  return driver_.cuMemRetainAllocationHandle(handle, address);
}

DriverResult VirtualMemory::get_properties(AllocationProperties* properties, DriverHandle handle) {
  if (!is_our_handle(handle))
    return driver_.cuMemGetAllocationPropertiesFromHandle(properties, handle);
  MutexLock lock(registry_.mutex);
  const Allocation* const allocation = registry_.find_handle(handle);
  if (allocation == nullptr || properties == nullptr) return driver_result::kInvalidValue;
  const Backing& backing = registry_.backing_of(*allocation);
  if (backing.is_here())
    return driver_.cuMemGetAllocationPropertiesFromHandle(properties, backing.handle);
  *properties = allocation->properties;
  return driver_result::kSuccess;
}

// --- Addresses

AMEM_NOT_ANALYSED DriverResult VirtualMemory::reserve(DeviceAddress* address, size_t size_bytes,
                                                      size_t alignment, DeviceAddress wanted,
                                                      unsigned long long flags,
                                                      AllocationId expected) {
  if (expected != 0 && address != nullptr && wanted == 0 && flags == 0) {
    MutexLock lock(registry_.mutex);
    Allocation* const allocation = registry_.find(expected);
    if (allocation != nullptr && size_bytes == allocation->size_bytes) {
      const Result<DeviceAddress> placed = slabs_.reserve(*allocation);
      if (!placed.ok()) {
        (void)result_of(placed.error(), allocation->device());
      } else if (placed.value() != 0) {
        registry_.add_reservation(*address = placed.value());
        return driver_result::kSuccess;
      }
    }
  }
  // Every address of the driver has an alignment of amem's unit.
  const size_t bytes = slabs_.driver_bytes(size_bytes);
  return driver_.cuMemAddressReserve(
      address, bytes, alignment < slabs_.driver_bytes(1) ? 0 : alignment, wanted, flags);
}

DriverResult VirtualMemory::free_address(DeviceAddress address, size_t size_bytes) {
  MutexLock lock(registry_.mutex);
  // A thread that has unmapped and released an import may free its reservation when another thread
  // has imported the same memory. The mapping there then has a reservation of its own.
  if (registry_.slab_at(address) != nullptr && registry_.find_mapping(address) != nullptr &&
      registry_.reservations_of(address) <= 1)
    return driver_result::kInvalidValue;
  const Allocation* const vacated = registry_.vacated_at(address);
  AddressRange unused;
  if (!registry_.remove_reservation(address, &unused))
    return driver_.cuMemAddressFree(address, slabs_.driver_bytes(size_bytes));
  if (vacated != nullptr) erase_if_unused(*vacated);
  if (unused.size_bytes == 0) return driver_result::kSuccess;
  return driver_.cuMemAddressFree(unused.address, unused.size_bytes);
}

AMEM_NOT_ANALYSED DriverResult VirtualMemory::return_to_slab(DriverHandle handle,
                                                             DeviceAddress address) {
  size_t size_bytes = 0;
  int device = 0;
  {
    MutexLock lock(registry_.mutex);
    if (registry_.vacated_at(address) == nullptr) return driver_result::kSuccess;
    Allocation* const allocation = find_copied(handle);
    if (allocation == nullptr || !slabs_.replace(*allocation, registry_.vacated_at(address)))
      return driver_result::kSuccess;
    size_bytes = allocation->size_bytes;
    device = allocation->device();
  }
  const Status zeroed = slabs_.zero(device, address, size_bytes);
  return zeroed.ok() ? driver_result::kSuccess : result_of(zeroed.error(), device);
}

AMEM_NOT_ANALYSED DriverResult VirtualMemory::map(DeviceAddress address, size_t size_bytes,
                                                  size_t offset, DriverHandle handle,
                                                  unsigned long long flags) {
  if (!is_our_handle(handle)) return driver_.cuMemMap(address, size_bytes, offset, handle, flags);
  const DriverResult returned = return_to_slab(handle, address);
  if (returned != driver_result::kSuccess) return returned;

  MutexLock lock(registry_.mutex);
  Allocation* const allocation = find_copied(handle);
  if (allocation == nullptr) return driver_result::kInvalidValue;
  if (registry_.backing_of(*allocation).is_slab) {
    const Result<bool> mapped = slabs_.map(*allocation, address, size_bytes, offset);
    if (!mapped.ok()) return result_of(mapped.error(), allocation->device());
    if (mapped.value()) return driver_result::kSuccess;
  }
  Backing& backing = registry_.backing_of(*allocation);  // its own
  const size_t bytes = slabs_.driver_bytes(size_bytes);
  if (backing.is_here()) {
    const DriverResult result = driver_.cuMemMap(address, bytes, offset, backing.handle, flags);
    if (result != driver_result::kSuccess) return result;
  } else if (offset != 0 || !registry_.mappings_in(address, size_bytes).empty()) {
    return driver_result::kInvalidValue;
  }
  // The size of an import is known at its first mapping.
  if (allocation->size_bytes == 0) allocation->size_bytes = size_bytes;
  if (backing.size_bytes == 0) backing.size_bytes = bytes;
  registry_.add_placement(backing, address, bytes).mapped = backing.is_here();
  registry_.add_mapping(*allocation, address, size_bytes);
  return driver_result::kSuccess;
}

AMEM_NOT_ANALYSED DriverResult VirtualMemory::unmap(DeviceAddress address, size_t size_bytes) {
  MutexLock lock(registry_.mutex);
  if (!registry_.wait_copied(address, size_bytes, Deadline::after_ms(settings_.timeout_ms)))
    return still_copied();
  const Backing* const slab = registry_.slab_at(address);
  const size_t bytes = slabs_.driver_bytes(size_bytes);
  const std::vector<Mapping*> mappings = slab != nullptr
                                             ? slabs_.mappings_in(*slab, address, size_bytes)
                                             : registry_.mappings_in(address, bytes);
  if (slab != nullptr && mappings.empty()) return driver_result::kInvalidValue;
  size_t absent_bytes = 0;
  for (const Mapping* mapping : mappings) {
    if (slab != nullptr) break;
    if (mapping->address < address || mapping->end() > address + bytes)
      return driver_result::kInvalidValue;
    if (!registry_.backing_of(*registry_.find(mapping->allocation)).is_here())
      absent_bytes += slabs_.driver_bytes(mapping->size_bytes);
  }
  // One call may unmap ranges with many mappings and gaps (dev_runtime.cc:197@v2.30.7-1). The
  // driver accepts holes. In a slab only the record changes.
  if (slab == nullptr && absent_bytes < bytes) {
    const DriverResult result = driver_.cuMemUnmap(address, bytes);
    if (result != driver_result::kSuccess) return result;
  }
  for (const Mapping* mapping : mappings) {
    const Allocation& allocation = *registry_.find(mapping->allocation);
    if (slab == nullptr)
      registry_.remove_placement(registry_.backing_of(allocation), mapping->address);
    registry_.remove_mapping(*mapping);
    erase_if_unused(allocation);
  }
  return driver_result::kSuccess;
}

AMEM_NOT_ANALYSED DriverResult VirtualMemory::set_access(DeviceAddress address, size_t size_bytes,
                                                         const Access* access, size_t count) {
  MutexLock lock(registry_.mutex);
  if (!registry_.wait_copied(address, size_bytes, Deadline::after_ms(settings_.timeout_ms)))
    return still_copied();
  if (Backing* const slab = registry_.slab_at(address)) {
    const Status granted = slabs_.set_access(*slab, address, access, count);
    return granted.ok() ? driver_result::kSuccess : result_of(granted.error(), slab->device());
  }
  const size_t bytes = slabs_.driver_bytes(size_bytes);
  std::vector<Placement*> placements;
  size_t absent_bytes = 0;
  for (const Mapping* mapping : registry_.mappings_in(address, bytes)) {
    Backing& backing = registry_.backing_of(*registry_.find(mapping->allocation));
    placements.push_back(backing.placement_at(mapping->address));
    if (!placements.back()->mapped) absent_bytes += placements.back()->size_bytes;
  }
  if (absent_bytes < bytes) {
    const DriverResult result = driver_.cuMemSetAccess(address, bytes, access, count);
    if (result != driver_result::kSuccess) return result;
  }
  for (Placement* placement : placements) {
    for (size_t i = 0; i < count; ++i) grant(placement->access, access[i], false);
    placement->accessible = placement->mapped;
  }
  return driver_result::kSuccess;
}

DriverResult VirtualMemory::get_address_range(DeviceAddress* base, size_t* size_bytes,
                                              DeviceAddress address) {
  MutexLock lock(registry_.mutex);
  if (const Mapping* mapping = registry_.mapping_at(address)) {
    if (base != nullptr) *base = mapping->address;
    if (size_bytes != nullptr) *size_bytes = mapping->size_bytes;
    return driver_result::kSuccess;
  }
  if (registry_.slab_at(address) != nullptr) return driver_result::kNotFound;
  return driver_.cuMemGetAddressRange_v2(base, size_bytes, address);
}

// --- Multicast objects

// A pause that runs at the same time does not release the memory.
DriverResult VirtualMemory::bind(DriverHandle object, size_t object_offset, DriverHandle memory,
                                 size_t memory_offset, size_t size_bytes,
                                 unsigned long long flags) {
  DriverHandle handle = memory;
  if (is_our_handle(memory)) {
    MutexLock lock(registry_.mutex);
    Allocation* const allocation = find_copied(memory);
    if (allocation == nullptr || !registry_.backing_of(*allocation).is_here())
      return driver_result::kInvalidValue;
    ++allocation->registering;
    handle = registry_.backing_of(*allocation).handle;
    memory_offset += allocation->offset_bytes;
  }
  const DriverResult result =
      driver_.cuMulticastBindMem(object, object_offset, handle, memory_offset, size_bytes, flags);
  if (!is_our_handle(memory)) return result;
  MutexLock lock(registry_.mutex);
  Allocation* const allocation = registry_.find(allocation_of(memory));
  if (allocation == nullptr) return result;
  --allocation->registering;
  if (result != driver_result::kSuccess) return result;
  // A pause unbinds this memory, and a resume binds it again. An import cannot be bound, a slab has
  // other buffers too, and memory for fabric handles may be reached from other nodes.
  if (Backing& backing = registry_.backing_of(*allocation);
      settings_.releases_multicast && !backing.is_slab && !backing.is_import &&
      backing.properties.requested_handle_types == kHandleTypeFd)
    backing.multicast_binds.push_back(
        {backing.device(), object, object_offset, memory_offset, size_bytes, true});
  else
    allocation->make_persistent(kBound);
  return result;
}

// The application's memory, which other clients may have allocated.
DriverResult VirtualMemory::bind_address(DriverHandle object, size_t offset, DeviceAddress address,
                                         size_t size_bytes, unsigned long long flags) {
  RegisteredRange(this, address, size_bytes).keep(kBound);
  return driver_.cuMulticastBindAddr(object, offset, address, size_bytes, flags);
}

DriverResult VirtualMemory::bind_endpoint(uint32_t endpoint, int device, uint64_t offset,
                                          DriverHandle memory, uint64_t memory_offset,
                                          uint64_t size_bytes, unsigned long long flags) {
  if (is_our_handle(memory)) {
    MutexLock lock(registry_.mutex);
    Allocation* const allocation = find_copied(memory);
    if (allocation == nullptr || !registry_.backing_of(*allocation).is_here())
      return driver_result::kInvalidValue;
    allocation->make_persistent(kEndpoint);
    memory = registry_.backing_of(*allocation).handle;
    memory_offset += allocation->offset_bytes;
  }
  return driver_.cuLogicalEndpointBindMem(endpoint, device, offset, memory, memory_offset,
                                          size_bytes, flags);
}

DriverResult VirtualMemory::bind_endpoint_address(uint32_t endpoint, int device, uint64_t offset,
                                                  DeviceAddress address, uint64_t size_bytes,
                                                  unsigned long long flags) {
  RegisteredRange(this, address, size_bytes).keep(kEndpoint);
  return driver_.cuLogicalEndpointBindAddr(endpoint, device, offset, address, size_bytes, flags);
}

DriverResult VirtualMemory::unbind(DriverHandle object, int device, size_t offset,
                                   size_t size_bytes) {
  const auto is_its = [&](const MulticastBind& bind) {
    return bind.object == object && bind.device == device && bind.object_offset_bytes >= offset &&
           bind.object_offset_bytes + bind.size_bytes <= offset + size_bytes;
  };
  MutexLock lock(registry_.mutex);
  size_t bound = 0, removed = std::erase_if(registry_.removed_binds, is_its);
  for (const auto& [id, backing] : registry_.backings())
    for (const MulticastBind& bind : backing.multicast_binds)
      if (is_its(bind)) ++(bind.bound ? bound : removed);
  if (bound > 0 || removed == 0) {
    const DriverResult result = driver_.cuMulticastUnbind(object, device, offset, size_bytes);
    if (result != driver_result::kSuccess) return result;
  }
  for (auto& [id, backing] : registry_.backings()) std::erase_if(backing.multicast_binds, is_its);
  return driver_result::kSuccess;
}

/// The client has released a handle of the driver, which may be that of a multicast object. Without
/// it amem cannot unbind memory, which stays.
void VirtualMemory::multicast_released(DriverHandle object) {
  if (!settings_.releases_multicast) return;
  const auto is_its = [object](const MulticastBind& bind) { return bind.object == object; };
  MutexLock lock(registry_.mutex);
  std::erase_if(registry_.removed_binds, is_its);
  for (auto& [id, backing] : registry_.backings()) {
    auto& binds = backing.multicast_binds;
    if (std::any_of(binds.begin(), binds.end(),
                    [&](const MulticastBind& bind) { return is_its(bind) && bind.bound; }))
      keep_all(registry_, backing, kBound);
    std::erase_if(binds, is_its);
  }
}

void VirtualMemory::keep_bound(const Tag& tag) {
  MutexLock lock(registry_.mutex);
  for (auto& [id, backing] : registry_.backings()) {
    auto& binds = backing.multicast_binds;
    if (backing.tag != tag || binds.empty() ||
        !std::all_of(binds.begin(), binds.end(), [](const auto& bind) { return bind.bound; }))
      continue;
    keep_all(registry_, backing, kBound);
    binds.clear();
  }
}

DriverResult VirtualMemory::get_handle_for_address_range(void* handle, DeviceAddress address,
                                                         size_t size_bytes, int type,
                                                         unsigned long long flags) {
  RegisteredRange range(this, address, size_bytes);
  const DriverResult result =
      driver_.cuMemGetHandleForAddressRange(handle, address, size_bytes, type, flags);
  if (result == driver_result::kSuccess) range.keep("registered with a NIC");
  return result;
}

}  // namespace amem
