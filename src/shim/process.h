// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>
#include <memory>

#include "engine/session.h"
#include "hook/hook_context.h"
#include "registry/derived_communicators.h"
#include "registry/nccl_client.h"
#include "shim/async_communicators.h"

namespace amem {

/// amem in this process: everything with state, built at the first call that needs it and never
/// destroyed, because other processes' memory and the threads of this one depend on it until the
/// very end.
///
/// After fork the child only forwards: its parent's threads and locks are not there. After exit()
/// has begun no driver call is made: the driver may be gone.
class Process {
 public:
  /// The one object; nullptr while amem is not enabled, or when there is no CUDA driver (why_off()
  /// says which). Thread-safe. Makes no driver call.
  static Process* get() {
    Process* const made = made_.load(std::memory_order_acquire);
    return made != nullptr ? made : build_once();
  }
  /// The same, but builds nothing: nullptr before somebody did. Async-signal-safe.
  static Process* built() { return made_.load(std::memory_order_acquire); }
  static std::string why_off();

  CallGate& gate() { return gate_; }
  DerivedCommunicators& derived_communicators() { return derived_communicators_; }
  Session& session() { return session_; }
  Registry& registry() { return registry_; }
  EngineContext& engine() { return engine_; }
  bool forked() const { return hooks_.forward_only.load(std::memory_order_relaxed); }

  /// To be called before a communicator is made: from now on other processes can reach this one.
  void meet_neighbours();

  AsyncCommunicators& async_communicators() { return async_; }
  /// A call on this communicator, nullptr when it is not known yet, returned ncclInProgress.
  void note_in_progress(ncclComm_t communicator, AsyncCommunicators::AskFunction* real) {
    captures_.expect_background_work();
    async_.note_in_progress(communicator, real);
  }

  Membership& members() { return client_.members(); }

 private:
  explicit Process(const Driver& driver);
  static Process* build();
  static Process* build_once();
  std::string status_text();

  static inline constinit std::atomic<Process*> made_{nullptr};

  const Driver driver_;
  Registry registry_;
  CallGate gate_;
  DerivedCommunicators derived_communicators_;
  CaptureWatch captures_{gate_};
  AsyncCommunicators async_{gate_};
  NcclClient client_{gate_,
                     registry_,
                     {[this](const auto* ids, Deadline deadline) {
                        return async_.wait_until_settled(ids, deadline);
                      },
                      [this] { return captures_.any(driver_); }}};
  ExitFlag exiting_;
  DeviceThreads devices_;
  EngineContext engine_;
  Neighbours neighbours_;
  Session session_;
  HookContext hooks_;
};

}  // namespace amem
