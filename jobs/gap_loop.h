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

/// Rounds back to back on a thread of their own, and when each of them was done, by
/// CLOCK_MONOTONIC: the gaps between them show what held the rank up, and when. A round is an
/// all_reduce of one float that is brought to the device, waited for and read back. All members of
/// the communicator run one and end after the same round, as in BackgroundLoop.
class GapLoop {
 public:
  explicit GapLoop(CommunicatorOrders& communicators) : communicators_(communicators) {}

  /// `gaps_begin COMMUNICATOR` answers when the first round is done, `gap_rounds` with the rounds
  /// since, `gaps_end` with all of them when the loop has ended on every member. From then on
  /// `gaps_between BEGIN_NS END_NS` answers with the rounds done between these times, and the
  /// median and the longest of the gaps that reach into that stretch, in nanoseconds. They refer to
  /// this object.
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
  // A vector that grows would copy itself within a round, which would be a gap of our own making.
  std::deque<int64_t> done_ns_;
  std::string error_;
};

}  // namespace jobs
