// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <string>

#include "jobs/communicator_orders.h"
#include "jobs/orders.h"

namespace jobs {

/// The cost of amem for a call: NCCL's functions as an application calls them, and the same
/// functions called directly, in turns on one communicator of one process. The calls are for no
/// data: NCCL returns before it asks the driver anything (taskAppend(), enqueue.cc@v2.28.9-1), so
/// amem does not notice those that pass it.
class CallTiming {
 public:
  explicit CallTiming(CommunicatorOrders& communicators) : communicators_(communicators) {}

  /// `time_calls COMMUNICATOR REPEATS ROUNDS GROUPED NCCL_FILE`: in each round REPEATS all_reduces
  /// without data in each of the two ways, each in its own NCCL group if GROUPED is 1. Returns the
  /// nanoseconds of one for each round, direct and through amem. Fails if amem has counted the
  /// direct ones too. The commands refer to this object.
  Orders orders();

 private:
  std::string time_calls(Words& words);

  CommunicatorOrders& communicators_;
};

}  // namespace jobs
