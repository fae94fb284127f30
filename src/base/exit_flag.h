// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>

#include "base/result.h"

namespace amem {

/// Whether exit() has begun in this process. From then on none of our threads begins a driver call:
/// the driver may be gone.
///
/// Thread-safe.
class ExitFlag {
 public:
  /// Never taken back.
  void raise() { raised_.store(true); }
  explicit operator bool() const { return raised_.load(); }

  /// For work that consists of several calls, before each of them. Misuse once exit() has begun.
  Status check() const {
    if (!raised_.load()) return ok_status();
    return make_error(
        ErrorKind::misuse, 0,
        "exit() has begun while this was under way; the driver is not called any more");
  }

 private:
  std::atomic<bool> raised_{false};
};

}  // namespace amem
