// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>
#include <map>
#include <vector>

#include "amem_nccl_abi.h"
#include "base/deadline.h"
#include "base/mutex.h"
#include "base/result.h"
#include "registry/call_gate.h"

namespace amem {

/// Non-blocking communicators (ncclConfig_t::blocking 0): NCCL goes on working for them after its
/// calls have returned ncclInProgress, on threads of its own.
///
/// NCCL may be asked about a communicator by one thread at a time, so a pause that asks for the
/// state of the application's communicators takes turns with the application's own questions
/// (ncclCommGetAsyncError ends the group's job, init.cc@v2.28.9), and does not ask for one that
/// the application has just ended.
///
/// Thread-safe.
class AsyncCommunicators {
 public:
  /// ncclCommGetAsyncError of the communicator's library.
  using AskFunction = int(ncclComm_t communicator, int* state);

  explicit AsyncCommunicators(CallGate& gate) : gate_(gate) {}

  /// A call on this communicator, nullptr when it is not known yet, returned ncclInProgress.
  void note_in_progress(ncclComm_t communicator, AskFunction* real);
  /// Can NCCL have work that no thread of the application is inside for?
  bool any() const { return any_.load(std::memory_order_relaxed); }
  /// The application's own question.
  int ask(AskFunction* real, ncclComm_t communicator, int* state);
  /// The application ends a communicator: nobody asks for it any more.
  void forget(ncclComm_t communicator);

  /// Waits until none of these communicators (all when `ids` is nullptr) has an operation in
  /// progress. Timeout at the deadline.
  Status wait_until_settled(const std::vector<CommunicatorId>* ids, Deadline deadline);

 private:
  /// Is it known, one of these, and still in progress?
  bool is_in_progress(ncclComm_t communicator, const std::vector<CommunicatorId>* ids);

  CallGate& gate_;
  std::atomic<bool> any_{false};
  Mutex turns_;
  std::map<ncclComm_t, AskFunction*> communicators_ AMEM_GUARDED_BY(turns_);
};

}  // namespace amem
