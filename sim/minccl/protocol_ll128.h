// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "sim/minccl/device_layout.h"

namespace amem::minccl {

/// Lines of 128 bytes: 120 bytes of data and 8 bytes of flag, step + 1. A GPU stores a line
/// atomically; here the flag is stored last.
struct Ll128Protocol {
  static size_t payload_bytes(size_t slot_bytes) {
    return slot_bytes / kLl128LineBytes * kLl128DataBytes;
  }

  static void write(std::byte* slot, const std::byte* data, size_t bytes, uint64_t step) {
    for (size_t line = 0; line < lines(bytes); ++line, slot += kLl128LineBytes) {
      memcpy(slot, data + line * kLl128DataBytes, data_of(line, bytes));
      flag(slot).store(step + 1, std::memory_order_release);
    }
  }

  static bool arrived(std::byte* slot, size_t bytes, uint64_t step) {
    for (size_t line = lines(bytes); line-- > 0;)
      if (flag(slot + line * kLl128LineBytes).load(std::memory_order_acquire) != step + 1)
        return false;
    return true;
  }

  /// REQUIRES: arrived().
  static void read(std::byte* slot, std::byte* data, size_t bytes) {
    for (size_t line = 0; line < lines(bytes); ++line, slot += kLl128LineBytes)
      memcpy(data + line * kLl128DataBytes, slot, data_of(line, bytes));
  }

 private:
  static size_t lines(size_t bytes) { return (bytes + kLl128DataBytes - 1) / kLl128DataBytes; }
  static size_t data_of(size_t line, size_t bytes) {
    size_t left = bytes - line * kLl128DataBytes;
    return left < kLl128DataBytes ? left : kLl128DataBytes;
  }
  static std::atomic_ref<uint64_t> flag(std::byte* line) {
    return std::atomic_ref(*reinterpret_cast<uint64_t*>(line + kLl128DataBytes));
  }
};

}  // namespace amem::minccl
