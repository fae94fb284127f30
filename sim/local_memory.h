// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "sim/backing.h"

namespace amem::sim {

/// The local memory of a context: the stacks of all threads that its GPU can run at once. It is in
/// the GPU's memory, counts as used, grows with the deepest stack of all kernels launched so far,
/// and shrinks only with cuCtxSetLimit(CU_LIMIT_STACK_SIZE) (measured, driver 580). Thread-safe.
class LocalMemory {
 public:
  explicit LocalMemory(CuDevice device) : device_(device) {}

  /// CU_LIMIT_STACK_SIZE: the maximum stack of one thread, in bytes.
  uint64_t stack_bytes();

  /// Allocates or returns memory for stacks of this size, rounded up like the driver.
  /// kErrorOutOfMemory: there is not enough memory, and nothing has changed.
  CuResult set_stack(uint64_t stack_bytes);

  /// As set_stack() if the stack is deeper than the current one; otherwise does nothing.
  CuResult fit_stack(uint64_t stack_bytes);

  /// Returns all memory: the context has ended.
  void release();

  std::vector<BackingRef> backings();

  static constexpr uint64_t kInitialStackBytes = 1024;

 private:
  CuResult resize(uint64_t stack_bytes);  // REQUIRES: mutex_

  const CuDevice device_;
  std::mutex mutex_;
  uint64_t stack_bytes_ = 0;
  std::vector<BackingRef> granules_;
};

}  // namespace amem::sim
