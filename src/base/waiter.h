// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <optional>
#include <utility>

#include "base/mutex.h"

namespace amem {

/// Passes one value from one thread to another, with a deadline. Both threads share the object,
/// because the value may arrive after the deadline. Thread-safe.
template <typename T>
class Waiter {
 public:
  /// Must be called once.
  void give(T value) {
    MutexLock lock(mutex_);
    value_.emplace(std::move(value));
    given_.notify_all();
  }
  /// Waits for the value. Empty if the deadline passed first.
  std::optional<T> get(Deadline deadline) {
    MutexLock lock(mutex_);
    (void)given_.wait_until(mutex_, deadline,
                            [&]() AMEM_REQUIRES(mutex_) { return value_.has_value(); });
    return value_;
  }

 private:
  Mutex mutex_;
  Condition given_;
  std::optional<T> value_ AMEM_GUARDED_BY(mutex_);
};

}  // namespace amem
