// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "memory/registered_range.h"

namespace amem {

RegisteredRange::RegisteredRange(VirtualMemory* memory, DeviceAddress address, size_t size_bytes)
    : memory_(memory) {
  if (memory == nullptr) return;
  MutexLock lock(memory->registry().mutex);
  for (const Mapping* mapping : memory->registry().mappings_in(address, size_bytes))
    add(mapping->allocation);
}

RegisteredRange::RegisteredRange(VirtualMemory* memory, DriverHandle backing) : memory_(memory) {
  if (memory == nullptr || backing == 0) return;
  MutexLock lock(memory->registry().mutex);
  for (const auto& [id, known] : memory->registry().backings())
    if (known.handle == backing)
      for (const auto& [offset_bytes, allocation] : known.allocations) add(allocation);
}

void RegisteredRange::add(AllocationId id) {
  Allocation* const allocation = memory_->registry().find(id);
  if (allocation == nullptr) return;
  ++allocation->registering;
  allocations_.push_back(id);
}

RegisteredRange::~RegisteredRange() {
  if (allocations_.empty()) return;
  MutexLock lock(memory_->registry().mutex);
  for (const AllocationId id : allocations_)
    if (Allocation* const allocation = memory_->registry().find(id)) --allocation->registering;
}

AMEM_NOT_ANALYSED void RegisteredRange::keep(const char* because) {
  if (allocations_.empty()) return;
  MutexLock lock(memory_->registry().mutex);
  for (const AllocationId id : allocations_)
    if (Allocation* const allocation = memory_->registry().find(id)) {
      allocation->make_persistent(because);
      // A range over several buffers, such as a whole slab, says nothing about their sizes.
      if (allocations_.size() == 1 && allocation->is_buffer)
        memory_->slabs().note_registered(allocation->size_bytes);
    }
}

}  // namespace amem
