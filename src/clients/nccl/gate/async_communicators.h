// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>
#include <map>
#include <utility>

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
  /// NCCL has returned ncclInProgress, or may have: it works in the background from now on.
  /// Relaxed: the call is inside the gate, and a pause asks any() after it has seen that call
  /// outside.
  void note_in_progress() { any_.store(true, std::memory_order_relaxed); }
  /// True if NCCL may run work while no thread of the application is inside.
  bool any() const { return any_.load(std::memory_order_relaxed); }
  /// NCCL stores a child of `parent`, which is in progress, in `slot` later. Until then only its
  /// identity is known (CallGate::add_pending).
  void expect_child(ncclComm_t parent, ncclComm_t* slot, const CommunicatorId& id);
  /// A query by the application. The answer that the communicator is not in progress any more says
  /// that NCCL has stored its children: until it returns, the application keeps their slots.
  int ask(AskFunction* real, ncclComm_t communicator, int* state);
  /// The application ends a communicator. It is not queried any more.
  void forget(ncclComm_t communicator);

  /// Waits until none of these communicators (all if `ids` is nullptr) is in progress. Errors:
  /// timeout; that of CallGate::refuse_if_import_waits().
  Status wait_until_settled(const CommunicatorIds* ids, Deadline deadline);

 private:
  bool any_in_progress(const CommunicatorIds* ids);
  /// NCCL has stored the children of the parent, or stores no more. Reads the slots if they exist.
  void end_children(ncclComm_t parent, bool have_slots) AMEM_REQUIRES(turns_);

  CallGate& gate_;
  std::atomic<bool> any_{false};
  Mutex turns_;
  std::map<ncclComm_t, AskFunction*> communicators_ AMEM_GUARDED_BY(turns_);
  /// By parent: where NCCL stores them, and their identities.
  std::multimap<ncclComm_t, std::pair<ncclComm_t*, CommunicatorId>> children_
      AMEM_GUARDED_BY(turns_);
};

}  // namespace amem
