// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>
#include <string>
#include <thread>

#include "jobs/device.h"
#include "jobs/orders.h"

namespace jobs {

/// Work on the rank's device that has nothing to do with NCCL and leaves no moment without any: the
/// next piece is queued before the last one is waited for.
class BusyDevice {
 public:
  /// `keep_busy` begins and `end_busy` ends it; `busy_rounds` answers with the pieces done so far.
  /// They refer to this object.
  Orders orders();

 private:
  std::string keep_busy(Words&);
  std::string end_busy(Words&);
  void work(Context context);

  std::thread thread_;
  std::atomic<bool> stop_{false};
  std::atomic<long> rounds_{0};
  std::string error_;
};

}  // namespace jobs
