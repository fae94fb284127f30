// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace amem::minccl {

/// Every 8-byte word contains 4 bytes of data and, in the upper half, 4 bytes of flag: the low bits
/// of step + 1. The receiver reads only the words, so it takes a stale word with the right flag for
/// data.
struct LlProtocol {
  static size_t payload_bytes(size_t slot_bytes) { return slot_bytes / 2; }

  static void write(std::byte* slot, const std::byte* data, size_t bytes, uint64_t step) {
    auto* word = reinterpret_cast<uint64_t*>(slot);
    for (size_t done = 0; done < bytes; done += 4, ++word) {
      uint32_t part = 0;
      memcpy(&part, data + done, bytes - done < 4 ? bytes - done : 4);
      std::atomic_ref(*word).store(flag(step) << 32 | part, std::memory_order_release);
    }
  }

  static bool arrived(std::byte* slot, size_t bytes, uint64_t step) {
    auto* word = reinterpret_cast<uint64_t*>(slot);
    for (size_t i = words(bytes); i-- > 0;)
      if (std::atomic_ref(word[i]).load(std::memory_order_acquire) >> 32 != flag(step))
        return false;
    return true;
  }

  /// REQUIRES: arrived().
  static void read(std::byte* slot, std::byte* data, size_t bytes) {
    auto* word = reinterpret_cast<uint64_t*>(slot);
    for (size_t done = 0; done < bytes; done += 4, ++word) {
      auto part = static_cast<uint32_t>(std::atomic_ref(*word).load(std::memory_order_relaxed));
      memcpy(data + done, &part, bytes - done < 4 ? bytes - done : 4);
    }
  }

 private:
  static size_t words(size_t bytes) { return (bytes + 3) / 4; }
  static uint64_t flag(uint64_t step) { return static_cast<uint32_t>(step + 1); }
};

}  // namespace amem::minccl
