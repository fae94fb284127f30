// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstddef>
#include <cstring>

namespace amem::minccl {

/// Plain bytes. The `tail` counter tells the receiver that they are complete.
struct SimpleProtocol {
  static size_t payload_bytes(size_t slot_bytes) { return slot_bytes; }
  static void write(std::byte* slot, const std::byte* data, size_t bytes) {
    memcpy(slot, data, bytes);
  }
};

}  // namespace amem::minccl
