// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sim/address_space.h"

#include <sys/mman.h>

#include <algorithm>
#include <iterator>

#include "sim/pool.h"

namespace amem::sim {
namespace {

constexpr int kReserveFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

// Below where the kernel places position-independent programs, and application memory to both
// AddressSanitizer and ThreadSanitizer.
constexpr CuDevicePtr kFirstAddress = 0x5500'0000'0000, kEndAddress = 0x5550'0000'0000;

CuDevicePtr round_up(CuDevicePtr value, size_t alignment_bytes) {
  return (value + alignment_bytes - 1) / alignment_bytes * alignment_bytes;
}

void* pointer(CuDevicePtr address) { return reinterpret_cast<void*>(address); }

bool aligned(uint64_t value) { return value % kGranularityBytes == 0; }

bool power_of_two(uint64_t value) { return (value & (value - 1)) == 0; }

// Inaccessible addresses that nothing else in the process will get. 0 when there are none.
CuDevicePtr take_addresses(size_t size_bytes, size_t alignment_bytes, CuDevicePtr wanted) {
  if (wanted != 0) {
    void* at =
        mmap(pointer(wanted), size_bytes, PROT_NONE, kReserveFlags | MAP_FIXED_NOREPLACE, -1, 0);
    if (at == pointer(wanted)) return wanted;
    if (at != MAP_FAILED) munmap(at, size_bytes);
  }
  const size_t slack_bytes = size_bytes + alignment_bytes;
  void* at = mmap(nullptr, slack_bytes, PROT_NONE, kReserveFlags, -1, 0);
  if (at == MAP_FAILED) return 0;
  const auto start = reinterpret_cast<CuDevicePtr>(at);
  const CuDevicePtr address = round_up(start, alignment_bytes);
  if (address > start) munmap(at, address - start);
  const CuDevicePtr end = address + size_bytes;
  if (end < start + slack_bytes) munmap(pointer(end), start + slack_bytes - end);
  return address;
}

int protection(int access_flags) {
  if (access_flags == kAccessNone) return PROT_NONE;
  return access_flags == kAccessRead ? PROT_READ : PROT_READ | PROT_WRITE;
}

bool map_file(CuDevicePtr address, size_t size_bytes, const Backing& backing, int prot) {
  return mmap(pointer(address), size_bytes, prot, MAP_SHARED | MAP_FIXED, backing.fd(),
              static_cast<off_t>(backing.file_offset_bytes())) != MAP_FAILED;
}

}  // namespace

AddressSpace& AddressSpace::instance() {
  static auto* space = new AddressSpace;  // outlives every thread of the process
  return *space;
}

CuResult AddressSpace::reserve(size_t size_bytes, size_t alignment_bytes, CuDevicePtr wanted,
                               CuDevicePtr* address) {
  if (size_bytes == 0 || !aligned(size_bytes) || !power_of_two(alignment_bytes)) {
    return kErrorInvalidValue;
  }
  std::lock_guard guard(mutex_);
  return reserve_locked(size_bytes, alignment_bytes, wanted, false, address);
}

CuResult AddressSpace::reserve_locked(size_t size_bytes, size_t alignment_bytes, CuDevicePtr wanted,
                                      bool of_allocation, CuDevicePtr* address) {
  const size_t alignment = std::max<size_t>(alignment_bytes, kGranularityBytes);
  const CuDevicePtr usable =
      wanted != 0 && wanted % alignment == 0 ? wanted : first_free(size_bytes, alignment);
  const CuDevicePtr taken = take_addresses(size_bytes, alignment, usable);
  if (taken == 0) return kErrorOutOfMemory;
  reservations_.emplace(taken, Reservation{size_bytes, of_allocation});
  *address = taken;
  return kSuccess;
}

/// 0 when there is none where addresses are given out from.
CuDevicePtr AddressSpace::first_free(size_t size_bytes, size_t alignment_bytes) const {
  CuDevicePtr next = round_up(kFirstAddress, alignment_bytes);
  for (const auto& [start, reservation] : reservations_) {
    if (start >= next + size_bytes) break;
    next = std::max(next, round_up(start + reservation.size_bytes, alignment_bytes));
  }
  return next + size_bytes <= kEndAddress ? next : 0;
}

CuResult AddressSpace::free_reservation(CuDevicePtr address, size_t size_bytes) {
  std::lock_guard guard(mutex_);
  const auto reservation = reservations_.find(address);
  if (reservation == reservations_.end() || reservation->second.of_allocation ||
      reservation->second.size_bytes != size_bytes) {
    return kErrorInvalidValue;
  }
  const auto mapped = mappings_.lower_bound(address);
  if (mapped != mappings_.end() && mapped->first < address + size_bytes) return kErrorInvalidValue;
  munmap(pointer(address), size_bytes);
  reservations_.erase(reservation);
  return kSuccess;
}

bool AddressSpace::reserved_by_one(CuDevicePtr address, size_t size_bytes) const {
  auto reservation = reservations_.upper_bound(address);
  if (reservation == reservations_.begin()) return false;
  --reservation;
  return !reservation->second.of_allocation &&
         address + size_bytes <= reservation->first + reservation->second.size_bytes;
}

bool AddressSpace::reserved(CuDevicePtr address, size_t size_bytes) const {
  const CuDevicePtr end = address + size_bytes;
  for (CuDevicePtr next = address; next < end;) {
    if (!reserved_by_one(next, kGranularityBytes)) return false;
    const auto reservation = std::prev(reservations_.upper_bound(next));
    next = reservation->first + reservation->second.size_bytes;
  }
  return true;
}

CuResult AddressSpace::map(CuDevicePtr address, size_t size_bytes, size_t offset_bytes,
                           CuMemHandle handle, const BackingRef& backing) {
  if (size_bytes == 0 || !aligned(address) || offset_bytes + size_bytes > backing->size_bytes()) {
    return kErrorInvalidValue;
  }
  if (offset_bytes != 0 || (size_bytes != backing->size_bytes() && !backing->is_mappable_in_part()))
    return kErrorNotSupported;
  std::lock_guard guard(mutex_);
  if (!reserved_by_one(address, size_bytes)) return kErrorInvalidValue;
  const auto next = mappings_.lower_bound(address);
  const bool overlaps_next = next != mappings_.end() && next->first < address + size_bytes;
  if (overlaps_next || containing(address) != mappings_.end()) return kErrorInvalidValue;
  if (!map_file(address, size_bytes, *backing, PROT_NONE)) return kErrorOutOfMemory;
  mappings_.emplace(address, Mapping{size_bytes, size_bytes, handle, backing, {}, 0});
  return kSuccess;
}

AddressSpace::Mappings::iterator AddressSpace::containing(CuDevicePtr address) {
  auto mapping = mappings_.upper_bound(address);
  if (mapping == mappings_.begin()) return mappings_.end();
  --mapping;
  return address < mapping->first + mapping->second.size_bytes ? mapping : mappings_.end();
}

// The mappings of a range, if it cuts none of them and none belongs to cuMemAlloc; perhaps none.
std::optional<AddressSpace::MappingRange> AddressSpace::whole_mappings(CuDevicePtr address,
                                                                       size_t size_bytes) {
  if (size_bytes == 0 || !aligned(address) || !aligned(size_bytes)) return std::nullopt;
  const CuDevicePtr end = address + size_bytes;
  const auto first = mappings_.lower_bound(address);
  const auto last = mappings_.lower_bound(end);
  const auto before = containing(address);
  if (before != mappings_.end() && before->first < address) return std::nullopt;
  for (auto mapping = first; mapping != last; ++mapping) {
    const bool cut = mapping->first + mapping->second.size_bytes > end;
    if (cut || mapping->second.handle == 0) return std::nullopt;
  }
  return MappingRange{first, last};
}

CuResult AddressSpace::unmap(CuDevicePtr address, size_t size_bytes) {
  std::vector<BackingRef> dropped;  // descriptors are closed after the lock
  std::lock_guard guard(mutex_);
  const auto range = whole_mappings(address, size_bytes);
  if (!range) return kErrorInvalidValue;
  const bool nothing = range->first == range->second;
  if (nothing && !reserved(address, size_bytes)) return kErrorInvalidValue;
  auto mapping = range->first;
  while (mapping != range->second) {
    const CuDevicePtr start = mapping->first;
    CuDevicePtr end = start;
    for (; mapping != range->second && mapping->first == end; mapping = mappings_.erase(mapping)) {
      end += mapping->second.size_bytes;
      dropped.push_back(std::move(mapping->second.backing));
    }
    if (mmap(pointer(start), end - start, PROT_NONE, kReserveFlags | MAP_FIXED, -1, 0) ==
        MAP_FAILED) {
      return kErrorUnknown;
    }
  }
  return kSuccess;
}

int AddressSpace::granted(const Mapping& mapping, std::optional<CuDevice> device) {
  int flags = kAccessNone;
  for (const CuAccessDesc& access : mapping.access)
    if (!device || access.location == CuLocation{kLocationDevice, *device}) flags |= access.flags;
  return flags;
}

CuResult AddressSpace::set_access(CuDevicePtr address, size_t size_bytes,
                                  std::span<const CuAccessDesc> list) {
  for (const CuAccessDesc& wanted : list) {
    if (!location_exists(wanted.location)) return kErrorInvalidDevice;
    if (wanted.flags != kAccessNone && wanted.flags != kAccessRead &&
        wanted.flags != kAccessReadWrite) {
      return kErrorInvalidValue;
    }
  }
  std::lock_guard guard(mutex_);
  const auto range = whole_mappings(address, size_bytes);
  if (!range || range->first == range->second || !reserved(address, size_bytes)) {
    return kErrorInvalidValue;
  }
  // Success, but nothing behind a hole is granted: as measured.
  CuDevicePtr next = range->first->first;
  for (auto mapping = range->first; mapping != range->second && mapping->first == next; ++mapping) {
    next += mapping->second.size_bytes;
    std::vector<CuAccessDesc>& access = mapping->second.access;
    for (const CuAccessDesc& wanted : list) {
      const auto known = std::find_if(
          access.begin(), access.end(),
          [&wanted](const CuAccessDesc& one) { return one.location == wanted.location; });
      known == access.end() ? access.push_back(wanted) : void(known->flags = wanted.flags);
    }
    if (mprotect(pointer(mapping->first), mapping->second.size_bytes,
                 protection(granted(mapping->second))) != 0) {
      return kErrorOutOfMemory;
    }
  }
  return kSuccess;
}

CuResult AddressSpace::get_access(CuDevicePtr address, const CuLocation& location, int* flags) {
  std::lock_guard guard(mutex_);
  const auto mapping = containing(address);
  if (mapping == mappings_.end()) return kErrorInvalidValue;
  int found = mapping->second.handle == 0 ? kAccessReadWrite : kAccessNone;
  for (const CuAccessDesc& access : mapping->second.access) {
    if (access.location == location) found = access.flags;
  }
  *flags = found;
  return kSuccess;
}

CuResult AddressSpace::add_allocation(uint64_t context_id, const BackingRef& backing,
                                      size_t asked_bytes, CuDevicePtr* address) {
  std::lock_guard guard(mutex_);
  CuDevicePtr taken = 0;
  const size_t size_bytes = backing->size_bytes();
  if (const CuResult reserved = reserve_locked(size_bytes, 0, 0, true, &taken);
      reserved != kSuccess) {
    return reserved;
  }
  if (!map_file(taken, size_bytes, *backing, PROT_READ | PROT_WRITE)) {
    munmap(pointer(taken), size_bytes);
    reservations_.erase(taken);
    return kErrorOutOfMemory;
  }
  mappings_.emplace(taken, Mapping{size_bytes, asked_bytes, 0, backing, {}, context_id});
  *address = taken;
  return kSuccess;
}

CuResult AddressSpace::remove_allocation(CuDevicePtr address) {
  BackingRef dropped;
  std::lock_guard guard(mutex_);
  const auto mapping = mappings_.find(address);
  if (mapping == mappings_.end() || mapping->second.handle != 0) return kErrorInvalidValue;
  dropped = std::move(mapping->second.backing);
  munmap(pointer(address), mapping->second.size_bytes);
  mappings_.erase(mapping);
  reservations_.erase(address);
  return kSuccess;
}

void AddressSpace::remove_allocations_of(uint64_t context_id) {
  std::vector<CuDevicePtr> ended;
  {
    std::lock_guard guard(mutex_);
    for (const auto& [address, mapping] : mappings_)
      if (mapping.handle == 0 && mapping.context_id == context_id) ended.push_back(address);
  }
  for (const CuDevicePtr address : ended) remove_allocation(address);
}

std::optional<AddressSpace::Found> AddressSpace::find(CuDevicePtr address) {
  std::lock_guard guard(mutex_);
  const auto mapping = containing(address);
  if (mapping == mappings_.end()) return std::nullopt;
  return Found{mapping->first, mapping->second.asked_bytes, mapping->second.handle,
               mapping->second.backing};
}

std::vector<BackingRef> AddressSpace::backings() {
  std::lock_guard guard(mutex_);
  std::vector<BackingRef> all;
  for (const auto& [address, mapping] : mappings_) all.push_back(mapping.backing);
  return all;
}

CuResult AddressSpace::move_device_memory(bool there) {
  std::lock_guard guard(mutex_);
  for (const auto& [address, mapping] : mappings_) {
    if (!mapping.backing->is_device_memory()) continue;
    const int prot = mapping.handle == 0 ? PROT_READ | PROT_WRITE : protection(granted(mapping));
    const bool moved = there ? map_file(address, mapping.size_bytes, *mapping.backing, prot)
                             : mmap(pointer(address), mapping.size_bytes, PROT_NONE,
                                    kReserveFlags | MAP_FIXED, -1, 0) != MAP_FAILED;
    if (!moved) return kErrorOperatingSystem;
  }
  return kSuccess;
}

AddressSpace::Reach AddressSpace::reach(CuDevicePtr address, size_t size_bytes, int wanted_flags,
                                        std::optional<CuDevice> device) {
  std::lock_guard guard(mutex_);
  const CuDevicePtr end = address + size_bytes;
  auto after = reservations_.lower_bound(end);
  bool touches = false;
  if (after != reservations_.begin()) {
    --after;
    touches = after->first + after->second.size_bytes > address;
  }
  if (!touches) return Reach::kOutside;
  for (CuDevicePtr next = address; next < end;) {
    const auto mapping = containing(next);
    if (mapping == mappings_.end()) return Reach::kInaccessible;
    const bool open = mapping->second.handle == 0 ||
                      (granted(mapping->second, device) & wanted_flags) == wanted_flags;
    if (!open) return Reach::kInaccessible;
    next = mapping->first + mapping->second.size_bytes;
  }
  return Reach::kAccessible;
}

}  // namespace amem::sim
