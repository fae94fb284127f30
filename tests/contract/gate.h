// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <condition_variable>
#include <mutex>

#include "tests/contract/gpu_test.h"

namespace amem::contract {

/// Holds a stream at a host function until it is opened, at most for the deadline.
class Gate {
 public:
  ~Gate() { open(); }

  /// The host function; `gate` is a Gate.
  static void hold(void* gate) { static_cast<Gate*>(gate)->wait_open(); }

  void open() {
    std::lock_guard guard(mutex_);
    open_ = true;
    changed_.notify_all();
  }

  /// False if the stream did not get there by the deadline.
  bool wait_until_held() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kDeadline, [this] { return held_; });
  }

 private:
  void wait_open() {
    std::unique_lock lock(mutex_);
    held_ = true;
    changed_.notify_all();
    changed_.wait_for(lock, kDeadline, [this] { return open_; });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false;
  bool open_ = false;
};

}  // namespace amem::contract
