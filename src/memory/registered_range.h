// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <vector>

#include "memory/virtual_memory.h"

namespace amem {

/// All memory that is mapped in the range, or whose backing has the handle, stays while a call
/// registers it: a pause that runs at the same time must not release pages that the call has
/// pinned.
class RegisteredRange {
 public:
  /// `memory` may be nullptr.
  RegisteredRange(VirtualMemory* memory, DeviceAddress address, size_t size_bytes);
  RegisteredRange(VirtualMemory* memory, DriverHandle backing);
  ~RegisteredRange();
  RegisteredRange(const RegisteredRange&) = delete;

  /// The call has succeeded: makes the memory persistent.
  void keep(const char* because);

 private:
  void add(AllocationId id) AMEM_REQUIRES(memory_->registry().mutex);

  VirtualMemory* const memory_;
  std::vector<AllocationId> allocations_;
};

}  // namespace amem
