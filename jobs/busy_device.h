// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "jobs/device.h"
#include "jobs/orders.h"

namespace jobs {

/// Work on the rank's device that has nothing to do with NCCL: one piece that lasts, or many that
/// leave no moment without any, because the next is queued before the last is waited for.
class BusyDevice {
 public:
  /// `keep_busy` begins and `end_busy` ends it; `busy_rounds` answers with the pieces done so far.
  /// `begin_work` queues one piece, which lasts until `end_work`. They refer to this object.
  Orders orders();

 private:
  std::string keep_busy(Words&);
  std::string end_busy(Words&);
  void work(Context context);
  std::string begin_work();
  std::string end_work();

  std::thread thread_;
  std::atomic<bool> stop_{false};
  std::atomic<long> rounds_{0};
  std::string error_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool lasts_ = false;
};

}  // namespace jobs
