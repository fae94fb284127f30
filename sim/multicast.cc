// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sim/multicast.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <string>

#include "sim/address_space.h"
#include "sim/descriptor.h"
#include "sim/machine.h"
#include "sim/ofd_lock.h"
#include "sim/settings.h"

namespace amem::sim {
namespace {

constexpr uint64_t kMulticastMagic = 0x616d656d6d636173;

// The object's pages follow its header at the next multiple of the granularity.
constexpr uint64_t kPagesOffsetBytes = kGranularityBytes;
constexpr uint64_t kMulticastPageBytes = 512ull << 20;

MulticastHeader* map_header(int fd) {
  void* at = mmap(nullptr, sizeof(MulticastHeader), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return at == MAP_FAILED ? nullptr : static_cast<MulticastHeader*>(at);
}

CuAllocationProp properties_of(const MulticastHeader& header) {
  CuAllocationProp properties = {};
  properties.type = kAllocationPinned;
  properties.requested_handle_types = static_cast<int>(header.handle_types);
  properties.location = {kLocationInvalid, 0};
  return properties;
}

}  // namespace

Multicast::Multicast(UniqueFd memfd, MulticastHeader* header, const CuAllocationProp& properties)
    : Backing(std::move(memfd), kPagesOffsetBytes, header->size_bytes, properties),
      header_(header) {}

Multicast::~Multicast() {
  for (const Bind& bind : binds_) bind.shared->state = SharedBind::kFree;
  munmap(header_, sizeof(MulticastHeader));
}

CuResult Multicast::add_device(CuDevice device) {
  const uint32_t bit = 1u << device;
  uint32_t mask = header_->added_mask.load();
  do {
    if ((mask & bit) != 0 ||
        static_cast<uint32_t>(__builtin_popcount(mask)) >= header_->device_count) {
      return kErrorInvalidValue;
    }
  } while (!header_->added_mask.compare_exchange_weak(mask, mask | bit));
  header_->added.fetch_add(1);
  syscall(SYS_futex, &header_->added, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  return kSuccess;
}

void Multicast::wait_until_mappable() const {
  for (;;) {
    const uint32_t added = header_->added.load();
    if (added >= header_->device_count) return;
    syscall(SYS_futex, &header_->added, FUTEX_WAIT, added, nullptr, nullptr, 0);
  }
}

// Each process that has bound memory holds the slot. Locks end with a process that is killed.
bool Multicast::take_slot() {
  const UniqueFd locks = Machine::joined()->open_locks();
  const UniqueFd object(
      open(("/proc/self/fd/" + std::to_string(fd())).c_str(), O_RDWR | O_CLOEXEC));
  if (!locks.valid() || !object.valid()) return false;
  const LockedByte one_at_a_time(locks.get(), kFirstMulticastByte - 1);
  const auto is_held = [&](uint64_t slot) {
    return find_lock(locks.get(), {kFirstMulticastByte + slot, 1}).has_value();
  };
  if (!find_lock(object.get(), {0, 1}).has_value()) {
    uint64_t slot = 0;
    while (slot < multicast_slots() && is_held(slot)) ++slot;
    if (slot == multicast_slots()) return false;
    header_->slot = static_cast<uint32_t>(slot);
  }
  has_slot_ = keep_copy(object.get());
  slot_ = keep_copy(locks.get());
  return lock_shared(has_slot_.get(), 0) &&
         lock_shared(slot_.get(), kFirstMulticastByte + header_->slot);
}

CuResult Multicast::bind(CuDevice device, uint64_t offset_bytes, uint64_t size_bytes,
                         const BackingRef& memory, uint64_t memory_offset_bytes) {
  if (size_bytes == 0 || offset_bytes % kGranularityBytes != 0 ||
      size_bytes % kGranularityBytes != 0 || offset_bytes + size_bytes > this->size_bytes()) {
    return kErrorInvalidValue;
  }
  wait_until_mappable();
  if ((header_->added_mask.load() & (1u << device)) == 0) return kErrorInvalidDevice;
  std::lock_guard guard(mutex_);
  const bool overlaps = std::any_of(binds_.begin(), binds_.end(), [&](const Bind& bind) {
    return bind.device == device && bind.offset_bytes < offset_bytes + size_bytes &&
           offset_bytes < bind.offset_bytes + bind.size_bytes;
  });
  if (overlaps) return kErrorInvalidValue;
  if (binds_.empty() && !take_slot()) return kErrorOutOfMemory;
  for (SharedBind& shared : header_->binds) {
    uint32_t expected = SharedBind::kFree;
    if (!shared.state.compare_exchange_strong(expected, SharedBind::kChanging)) continue;
    shared.device = device;
    shared.offset_bytes = offset_bytes;
    shared.size_bytes = size_bytes;
    shared.pool_offset_bytes = memory->file_offset_bytes() + memory_offset_bytes;
    shared.state = SharedBind::kBound;
    binds_.push_back({device, offset_bytes, size_bytes, memory, &shared});
    return kSuccess;
  }
  return kErrorOutOfMemory;
}

CuResult Multicast::unbind(CuDevice device, uint64_t offset_bytes, uint64_t size_bytes) {
  BackingRef dropped;
  std::lock_guard guard(mutex_);
  const auto bind = std::find_if(binds_.begin(), binds_.end(), [&](const Bind& one) {
    return one.device == device && one.offset_bytes == offset_bytes && one.size_bytes == size_bytes;
  });
  if (bind == binds_.end()) return kErrorInvalidValue;
  dropped = std::move(bind->memory);
  bind->shared->state = SharedBind::kFree;
  binds_.erase(bind);
  if (binds_.empty()) {
    unlock(slot_.get(), kFirstMulticastByte + header_->slot);
    unlock(has_slot_.get(), 0);
    slot_.reset();
    has_slot_.reset();
  }
  return kSuccess;
}

std::vector<unsigned char*> Multicast::bound_at(uint64_t offset_bytes, uint64_t size_bytes) const {
  std::vector<unsigned char*> memory;
  for (const SharedBind& bind : header_->binds) {
    if (bind.state != SharedBind::kBound || offset_bytes < bind.offset_bytes ||
        offset_bytes + size_bytes > bind.offset_bytes + bind.size_bytes)
      continue;
    unsigned char* const pool = Machine::joined()->device(bind.device).all();
    if (pool != nullptr)
      memory.push_back(pool + bind.pool_offset_bytes + (offset_bytes - bind.offset_bytes));
  }
  return memory;
}

std::vector<unsigned char*> bound_at_address(CuDevicePtr address, uint64_t size_bytes) {
  AddressSpace& space = AddressSpace::instance();
  const auto mapping = space.find(address);
  if (!mapping ||
      space.reach(address, size_bytes, kAccessReadWrite) != AddressSpace::Reach::kAccessible)
    return {};
  const auto* const object = dynamic_cast<const Multicast*>(mapping->backing.get());
  if (object == nullptr) return {};
  return object->bound_at(address - mapping->base, size_bytes);
}

CuResult create_multicast(const CuMulticastProp& properties, BackingRef* object) {
  const auto devices = static_cast<unsigned>(Machine::joined()->device_count());
  if (properties.num_devices == 0 || properties.num_devices > devices ||
      properties.size_bytes == 0 || properties.size_bytes % kGranularityBytes != 0 ||
      properties.flags != 0) {
    return kErrorInvalidValue;
  }
  if ((properties.handle_types & kHandleTypeFabric) != 0) return kErrorNotPermitted;
  const UniqueFd created(memfd_create("amem-sim-multicast", MFD_CLOEXEC));
  UniqueFd memfd = keep_copy(created.get());
  if (!memfd.valid()) return kErrorOperatingSystem;
  const uint64_t capacity_bytes =
      (properties.size_bytes + kMulticastPageBytes - 1) / kMulticastPageBytes * kMulticastPageBytes;
  const uint64_t file_bytes = kPagesOffsetBytes + capacity_bytes;
  if (ftruncate(memfd.get(), static_cast<off_t>(file_bytes)) != 0) return kErrorOutOfMemory;
  MulticastHeader* header = map_header(memfd.get());
  if (header == nullptr) return kErrorOutOfMemory;
  header->device_count = properties.num_devices;
  header->size_bytes = capacity_bytes;
  header->handle_types = properties.handle_types;
  header->magic = kMulticastMagic;
  *object = std::make_shared<Multicast>(std::move(memfd), header, properties_of(*header));
  return kSuccess;
}

bool import_multicast(int fd, BackingRef* object) {
  uint64_t magic = 0;
  if (pread(fd, &magic, sizeof(magic), 0) != sizeof(magic) || magic != kMulticastMagic)
    return false;
  UniqueFd memfd = keep_copy(fd);
  if (!memfd.valid()) return false;
  MulticastHeader* header = map_header(memfd.get());
  if (header == nullptr) return false;
  *object = std::make_shared<Multicast>(std::move(memfd), header, properties_of(*header));
  return true;
}

}  // namespace amem::sim
