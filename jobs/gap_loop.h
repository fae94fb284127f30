// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <string>
#include <thread>

#include "jobs/communicator_orders.h"
#include "jobs/orders.h"

namespace jobs {

/// Rounds without a gap on a separate thread, and the time of the end of each, by CLOCK_MONOTONIC.
/// The intervals between them show when the rank was delayed. A round is an all_reduce of one float
/// that is copied to the device, waited for and copied back. All members of the communicator run
/// one and end after the same round, as in BackgroundLoop.
class GapLoop {
 public:
  explicit GapLoop(CommunicatorOrders& communicators) : communicators_(communicators) {}

  /// `gaps_begin COMMUNICATOR` replies after the first round, `gaps_end` when the loop has ended on
  /// every member, with the number of rounds; `gap_rounds` returns the rounds so far. Then
  /// `gaps_between BEGIN_NS END_NS` returns the number of rounds that ended between these times,
  /// and the median and the longest of the intervals that overlap this period, in nanoseconds. The
  /// commands refer to this object.
  Orders orders();

 private:
  std::string begin(Words& words);
  std::string end(Words&);
  std::string between(Words& words);
  void run(Communicator& communicator);

  CommunicatorOrders& communicators_;
  std::thread thread_;
  std::atomic<long> rounds_{0};
  std::atomic<bool> finish_{false};
  // A vector would copy itself when it grows, which would delay a round.
  std::deque<int64_t> done_ns_;
  std::string error_;
};

}  // namespace jobs
