// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>

#include "base/result.h"

namespace amem {

/// Set when exit() has begun. From then on amem starts no driver call, because the driver may be
/// unloaded.
///
/// Thread-safe.
class ExitFlag {
 public:
  /// The flag is never cleared.
  void raise() { raised_.store(true); }
  explicit operator bool() const { return raised_.load(); }

  /// To be called before each driver call of a longer operation. Error: misuse, once exit() has
  /// begun.
  Status check() const {
    if (!raised_.load()) return ok_status();
    return misuse_error("exit() has begun during this call; amem makes no more driver calls");
  }

 private:
  std::atomic<bool> raised_{false};
};

}  // namespace amem
