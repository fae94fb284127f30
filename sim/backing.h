// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstdint>
#include <memory>

#include "base/unique_fd.h"
#include "sim/cuda_abi.h"

/// The object of a memory handle: physical memory, or a multicast object (multicast.h).
namespace amem::sim {

/// Immutable, but for a checkpoint. Shared by the handle table and the mappings of this process.
/// Its last user closes its descriptor, which releases the process's share of the memory.
class Backing {
 public:
  Backing(UniqueFd description, uint64_t file_offset_bytes, uint64_t size_bytes,
          const CuAllocationProp& properties)
      : description_(std::move(description)),
        file_offset_bytes_(file_offset_bytes),
        size_bytes_(size_bytes),
        properties_(properties) {}
  virtual ~Backing() = default;
  Backing(const Backing&) = delete;

  int fd() const { return description_.get(); }
  uint64_t file_offset_bytes() const { return file_offset_bytes_; }
  uint64_t size_bytes() const { return size_bytes_; }
  const CuAllocationProp& properties() const { return properties_; }
  /// Memory that was exported by another process, or by this one. It cannot be exported again.
  bool is_import() const { return is_import_; }
  void mark_import() { is_import_ = true; }
  bool is_device_memory() const { return properties_.location.type == kLocationDevice; }
  /// Imported by a fabric handle.
  void mark_fabric() { properties_.requested_handle_types = kHandleTypeFabric; }

  /// Waits until it may be mapped. Physical memory may be mapped immediately.
  virtual void wait_until_mappable() const {}
  /// A mapping may be smaller than the allocation.
  virtual bool is_mappable_in_part() const { return false; }

  /// For a checkpoint: copies the memory to the host and releases it. kErrorNotSupported: a
  /// descriptor or another process holds it too.
  CuResult save();
  /// New memory with what was saved. kErrorOutOfMemory: it can be called again.
  CuResult restore();
  /// Memory that was restored cannot be exported either (checkpoint.h).
  bool was_restored() const { return was_restored_; }

 private:
  UniqueFd description_;
  uint64_t file_offset_bytes_;
  uint64_t size_bytes_;
  CuAllocationProp properties_;
  bool is_import_ = false;
  UniqueFd saved_;
  bool was_restored_ = false;
};

using BackingRef = std::shared_ptr<Backing>;

/// Creates physical memory with these properties, which are checked as in cuMemCreate. It contains
/// zeros, or the word of set_leftover().
CuResult create_physical_memory(uint64_t size_bytes, const CuAllocationProp& properties,
                                BackingRef* backing);

/// The implementation of amemSimSetLeftover (sim.h).
void set_leftover(uint32_t word);

/// Imports the memory or multicast object of an exported descriptor. The caller keeps the
/// descriptor.
CuResult import_backing(int fd, BackingRef* backing);

/// A new descriptor of the same memory, for an export.
CuResult export_backing(const Backing& backing, UniqueFd* fd);

/// True if the location names one of this machine's GPUs or its host memory.
bool location_exists(const CuLocation& location);

}  // namespace amem::sim
