// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sim/sparse_copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "sim/address_space.h"
#include "sim/machine.h"

namespace amem::sim {
namespace {

constexpr size_t kPageBytes = 4096;

/// The bytes at an address up to where they change from written to never written.
struct Run {
  bool written;
  size_t size_bytes;
};

// Host memory, and device memory that is no piece of a pool, counts as written.
Run run_at(CuDevicePtr address, size_t limit_bytes) {
  const auto mapping = AddressSpace::instance().find(address);
  if (!mapping) return {true, limit_bytes};
  const size_t within = address - mapping->base;
  limit_bytes = std::min<size_t>(limit_bytes, mapping->size_bytes - within);
  const auto memory = Machine::joined()->find(mapping->backing->fd());
  if (!memory) return {true, limit_bytes};
  const uint64_t offset_bytes = mapping->backing->file_offset_bytes() + within;
  const Pool::Extent extent = memory->pool->extent_at(offset_bytes);
  return {extent.has_pages, std::min<size_t>(limit_bytes, extent.end_bytes - offset_bytes)};
}

bool all_zero(const char* bytes, size_t size_bytes) {
  return bytes[0] == 0 && std::memcmp(bytes, bytes + 1, size_bytes - 1) == 0;
}

char* bytes_at(CuDevicePtr address) { return reinterpret_cast<char*>(address); }

void move_what_is_not_zero(CuDevicePtr to, CuDevicePtr from, size_t size_bytes) {
  for (size_t done = 0; done < size_bytes;) {
    const size_t piece = std::min<size_t>(size_bytes - done, kPageBytes - (to + done) % kPageBytes);
    if (!all_zero(bytes_at(from + done), piece)) {
      std::memcpy(bytes_at(to + done), bytes_at(from + done), piece);
    }
    done += piece;
  }
}

}  // namespace

void sparse_move(CuDevicePtr to, CuDevicePtr from, size_t size_bytes) {
  if (to < from + size_bytes && from < to + size_bytes) {
    std::memmove(bytes_at(to), bytes_at(from), size_bytes);
    return;
  }
  for (size_t done = 0; done < size_bytes;) {
    const Run source = run_at(from + done, size_bytes - done);
    if (!source.written) {
      sparse_zero(to + done, source.size_bytes);
      done += source.size_bytes;
      continue;
    }
    const Run target = run_at(to + done, source.size_bytes);
    if (target.written) {
      std::memcpy(bytes_at(to + done), bytes_at(from + done), target.size_bytes);
    } else {
      move_what_is_not_zero(to + done, from + done, target.size_bytes);
    }
    done += target.size_bytes;
  }
}

void sparse_zero(CuDevicePtr to, size_t size_bytes) {
  for (size_t done = 0; done < size_bytes;) {
    const Run target = run_at(to + done, size_bytes - done);
    if (target.written) std::memset(bytes_at(to + done), 0, target.size_bytes);
    done += target.size_bytes;
  }
}

bool sparse_is_zero(CuDevicePtr from, size_t size_bytes) {
  for (size_t done = 0; done < size_bytes;) {
    const Run run = run_at(from + done, size_bytes - done);
    if (run.written && !all_zero(bytes_at(from + done), run.size_bytes)) return false;
    done += run.size_bytes;
  }
  return true;
}

}  // namespace amem::sim
