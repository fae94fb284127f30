// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <string>

#include "jobs/communicator_orders.h"
#include "jobs/orders.h"

namespace jobs {

/// The cost of amem for a collective: NCCL's functions as an application calls them, and the same
/// functions called directly, in turns on one communicator of one process. Differences between
/// processes (placement of memory and threads) are larger than the cost of amem; in one process
/// they are equal for both.
class CallTiming {
 public:
  explicit CallTiming(CommunicatorOrders& communicators) : communicators_(communicators) {}

  /// `time_calls COMMUNICATOR COLLECTIVE COUNT REPEATS ROUNDS GROUPED NCCL_FILE`, on every member:
  /// in each round, REPEATS collectives of COUNT floats are queued and waited for, once in each
  /// way; each in its own NCCL group if GROUPED is 1. Returns the nanoseconds of one collective for
  /// each round, of NCCL alone and of amem. The commands refer to this object.
  Orders orders();

 private:
  std::string time_calls(Words& words);

  CommunicatorOrders& communicators_;
};

}  // namespace jobs
