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
#include "clients/nccl/gate/call_gate.h"

namespace amem {

/// Non-blocking communicators (ncclConfig_t::blocking 0): NCCL continues to work for them on its
/// own threads after a call has returned ncclInProgress.
///
/// NCCL does not always say which communicators are in progress: the end of a group returns
/// ncclInProgress for all of them, and ncclCommSplit() returns ncclSuccess while its parent is in
/// progress, and fills in the child afterwards (init.cc, ncclCommInitChildComm@v2.30.7-1). Once any
/// communicator has been in progress, a pause therefore queries all of them.
///
/// NCCL allows one query of a communicator at a time, because ncclCommGetAsyncError ends the
/// group's job (init.cc@v2.28.9). Queries of a pause and of the application therefore take turns. A
/// pause does not query communicators that the application has ended.
///
/// Thread-safe.
class AsyncCommunicators {
 public:
  /// ncclCommGetAsyncError of the communicator's library.
  using AskFunction = int(ncclComm_t communicator, int* state);

  explicit AsyncCommunicators(CallGate& gate) : gate_(gate) {}

  /// Adds a communicator to query: a new one, or one that another call created and that is now
  /// used.
  void add(ncclComm_t communicator, AskFunction* real);
  /// NCCL works in the background from now on.
  void note_in_progress() { any_.store(true, std::memory_order_relaxed); }
  /// True if NCCL may run work while no thread of the application is inside.
  bool any() const { return any_.load(std::memory_order_relaxed); }
  /// A query by the application.
  int ask(AskFunction* real, ncclComm_t communicator, int* state);
  /// The application ends a communicator. It is not queried any more.
  void forget(ncclComm_t communicator);

  /// Waits until none of these communicators (all if `ids` is nullptr) is in progress. Errors:
  /// timeout; that of CallGate::refuse_if_import_waits().
  Status wait_until_settled(const CommunicatorIds* ids, Deadline deadline);

 private:
  bool any_in_progress(const CommunicatorIds* ids);

  CallGate& gate_;
  std::atomic<bool> any_{false};
  Mutex turns_;
  std::map<ncclComm_t, AskFunction*> communicators_ AMEM_GUARDED_BY(turns_);
};

}  // namespace amem
