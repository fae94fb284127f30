// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>
#include <vector>

#include "amem_nccl_abi.h"
#include "base/deadline.h"
#include "base/mutex.h"
#include "base/result.h"
#include "registry/call_gate.h"

namespace amem {

/// Non-blocking communicators (ncclConfig_t.blocking = 0): NCCL goes on working for them after its
/// calls have returned ncclInProgress, on threads of its own.
///
/// NCCL is told about one communicator by one thread at a time, so a pause that asks for the state
/// of somebody else's communicators has to take turns with the application's own questions
/// (ncclCommGetAsyncError ends the group's job, init.cc@v2.28.9: twice at once is one too many) and
/// must not ask for one that has just been ended.
///
/// Thread-safe.
class AsyncCommunicators {
 public:
  /// ncclCommGetAsyncError.
  using AskFunction = int (*)(ncclComm_t communicator, int* state);

  explicit AsyncCommunicators(CallGate& gate) : gate_(gate) {}

  /// NCCL answered ncclInProgress.
  void note() { any_.store(true, std::memory_order_relaxed); }
  /// The application's own question.
  int ask(AskFunction real, ncclComm_t communicator, int* state);
  /// The application ends a communicator: nobody asks for it any more.
  void forget(ncclComm_t communicator);

  /// Waits until none of these communicators (all when `ids` is nullptr) is at work behind its
  /// caller's back. Timeout at the deadline.
  Status wait_until_settled(const std::vector<CommunicatorId>* ids, Deadline deadline);

 private:
  /// Is it known, one of these, and still at work?
  bool is_working(AskFunction real, ncclComm_t communicator,
                  const std::vector<CommunicatorId>* ids);

  CallGate& gate_;
  std::atomic<bool> any_{false};
  Mutex turns_;  // allow: it is for calls of NCCL about one communicator
};

}  // namespace amem
