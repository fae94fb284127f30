// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <string>

#include "jobs/communicator_orders.h"
#include "jobs/orders.h"

namespace jobs {

/// What amem adds to a collective: NCCL's functions as an application calls them, and those of the
/// same names in NCCL itself, in turns on one communicator of one process. What differs from
/// process to process (where its memory and its threads are) is the same for both, and differs by
/// more than amem costs.
class CallTiming {
 public:
  explicit CallTiming(CommunicatorOrders& communicators) : communicators_(communicators) {}

  /// `time_calls COMMUNICATOR COLLECTIVE COUNT REPEATS ROUNDS GROUPED NCCL_FILE`, on every member:
  /// in each round REPEATS collectives of COUNT floats, each in an NCCL group of its own when
  /// GROUPED is 1, are queued and waited for, once in the one way, once in the other. Answers with
  /// the nanoseconds of one, for each round NCCL's own and amem's. They refer to this object.
  Orders orders();

 private:
  std::string time_calls(Words& words);

  CommunicatorOrders& communicators_;
};

}  // namespace jobs
