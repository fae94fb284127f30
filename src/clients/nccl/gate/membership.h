// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <unordered_map>
#include <vector>

#include "base/identity.h"
#include "base/mutex.h"
#include "clients/nccl/gate/communicator_id.h"

namespace amem {

/// Communicators of this process of which another process may be a member, according to the replies
/// to this process's pauses. When a process has ended, NCCL does not report its communicators.
///
/// Thread-safe.
class Membership {
 public:
  /// Adds a communicator of this process and its number of ranks.
  void add(const CommunicatorId& id, int ranks);

  /// That number; 0 if it is not known.
  int ranks_of(const CommunicatorId& id);

  /// Removes the numbers of ranks of other communicators.
  void keep(const CommunicatorIds& existing);
  /// Removes the information of earlier pauses, because communicators may have been created since.
  /// `ours` are the existing communicators.
  void forget(const CommunicatorIds& ours);
  /// A process has sent its communicators, each as often as it has ranks in it.
  void note(const InstanceId& process, CommunicatorIds said);

  struct Communicators {
    CommunicatorIds ids;
    bool is_guess = false;  ///< it may not be a member of all these communicators
  };
  /// The communicators in `ours` of which the process may be a member: those that it has sent. If
  /// it has sent none: all except those whose ranks are all known to be in this process or in
  /// others. Includes nameless ones.
  Communicators may_include(const InstanceId& process, const CommunicatorIds& ours);

 private:
  Mutex mutex_;
  std::unordered_map<CommunicatorId, int> ranks_ AMEM_GUARDED_BY(mutex_);
  std::unordered_map<InstanceId, CommunicatorIds> said_ AMEM_GUARDED_BY(mutex_);
};

}  // namespace amem
