// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstdint>
#include <memory>

#include "base/unique_fd.h"
#include "sim/cuda_abi.h"

/// What a memory handle stands for: physical memory, or a multicast object (multicast.h).
namespace amem::sim {

/// Immutable; shared by the handle table and the mappings of this process. When the last of them
/// lets go, its descriptor is closed, and with it this process' share in the memory.
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
  /// Memory that another process (or this one) exported: it cannot be exported again from here.
  bool is_import() const { return is_import_; }
  void mark_import() { is_import_ = true; }

  /// Blocks until it may be mapped: at once for physical memory.
  virtual void wait_until_mappable() const {}

 private:
  UniqueFd description_;
  uint64_t file_offset_bytes_;
  uint64_t size_bytes_;
  CuAllocationProp properties_;
  bool is_import_ = false;
};

using BackingRef = std::shared_ptr<Backing>;

/// New physical memory with these properties, checked as cuMemCreate checks them. It reads zero, or
/// what set_leftover() says.
CuResult create_physical_memory(uint64_t size_bytes, const CuAllocationProp& properties,
                                BackingRef* backing);

/// As amemSimSetLeftover (sim.h).
void set_leftover(uint32_t word);

/// Joins the memory or multicast object that a descriptor from an export stands for. The descriptor
/// stays the caller's.
CuResult import_backing(int fd, BackingRef* backing);

/// Another descriptor of the same memory, as an export hands it out.
CuResult export_backing(const Backing& backing, UniqueFd* fd);

/// True if the location names one of this machine's GPUs or its host memory.
bool location_exists(const CuLocation& location);

}  // namespace amem::sim
