// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>

#include "base/mutex.h"
#include "clients/nccl/cycles/rendezvous.h"
#include "clients/nccl/gate/call_gate.h"
#include "clients/nccl/gate/membership.h"

namespace amem {

/// AMEM_CYCLE_EVERY: pauses and resumes NCCL's memory after every K-th call on a communicator, so
/// that a program can be tested with pauses without a change. A call is one call outside groups, or
/// one group. Only calls that start work are counted, and not those in a stream capture.
///
/// The ranks of the communicator synchronize on the host before the pause and again before the
/// resume (rendezvous.h). Otherwise a rank could launch the next collective while another rank
/// pauses: that pause would wait for work that waits for the paused rank. NCCL calls of other
/// threads wait at the gate of the process until the resume.
///
/// A communicator gets no more pauses if its ranks do not synchronize within AMEM_TIMEOUT_MS, for
/// example because they make different numbers of calls, and none if its number of ranks is not
/// known (blocking = 0). A pause can fail in programs whose threads use several communicators
/// concurrently.
///
/// Thread-safe.
class Cycles {
 public:
  struct Settings {
    long every = 0;  ///< 0: no cycles
    long timeout_ms = 60000;
    std::function<Status()> pause, resume;
  };
  Cycles(Settings settings, CallGate& gate, Membership& members)
      : settings_(std::move(settings)), gate_(gate), members_(members) {}

  bool enabled() const { return settings_.every > 0; }
  /// The calling thread has made a call on this communicator.
  void count(const void* communicator);
  /// The calling thread's call has returned, or its outermost group has ended, and left the gate:
  /// runs the cycles that are due. Has no effect in a call or group. Errors: those of resume().
  Status run_due();
  void communicator_ends(const void* communicator);

 private:
  struct Counted {
    CommunicatorId id;
    uint64_t calls = 0;
  };
  /// A cycle of the ranks that the calling thread's call was made on.
  struct Due {
    int ranks = 0;
    uint32_t cycle = 0;  ///< from 1
  };
  using AllDue = std::map<CommunicatorId, Due>;

  AllDue take_due();
  Status run(const CommunicatorId& id, const Due& due);
  std::shared_ptr<Rendezvous> rendezvous_of(const CommunicatorId& id);

  const Settings settings_;
  CallGate& gate_;
  Membership& members_;
  Mutex mutex_;
  std::unordered_map<const void*, Counted> counted_ AMEM_GUARDED_BY(mutex_);
  /// nullptr for a communicator that gets no more pauses.
  std::map<CommunicatorId, std::shared_ptr<Rendezvous>> rendezvous_ AMEM_GUARDED_BY(mutex_);
};

}  // namespace amem
