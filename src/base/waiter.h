// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <optional>
#include <utility>

#include "base/mutex.h"

namespace amem {

/// One value on its way from the thread that has it to the one that waits for it. Shared by both:
/// the value may come after the other one has given up. Thread-safe.
template <typename T>
class Waiter {
 public:
  /// To be called once.
  void give(T value) {
    MutexLock lock(mutex_);
    value_.emplace(std::move(value));
    given_.notify_all();
  }
  /// Waits for the value and takes it; nothing when the deadline passed first.
  std::optional<T> take(Deadline deadline) {
    MutexLock lock(mutex_);
    wait(deadline);
    return std::exchange(value_, std::nullopt);
  }
  /// The same, but the value stays for whoever asks next.
  std::optional<T> get(Deadline deadline) {
    MutexLock lock(mutex_);
    wait(deadline);
    return value_;
  }

 private:
  void wait(Deadline deadline) AMEM_REQUIRES(mutex_) {
    (void)given_.wait_until(mutex_, deadline,
                            [&]() AMEM_REQUIRES(mutex_) { return value_.has_value(); });
  }

  Mutex mutex_;
  Condition given_;
  std::optional<T> value_ AMEM_GUARDED_BY(mutex_);
};

}  // namespace amem
