// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstddef>
#include <cstring>

namespace amem::minccl {

/// Plain bytes; the `tail` counter says that they are there.
struct SimpleProtocol {
  static size_t payload_bytes(size_t slot_bytes) { return slot_bytes; }
  static size_t wire_bytes(size_t bytes) { return bytes; }
  static void write(std::byte* slot, const std::byte* data, size_t bytes) {
    memcpy(slot, data, bytes);
  }
};

}  // namespace amem::minccl
