// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <unordered_map>
#include <vector>

#include "base/identity.h"
#include "base/mutex.h"
#include "registry/communicator_id.h"

namespace amem {

/// Which of our communicators another process may be a member of, by what processes say when they
/// answer a pause of ours. When one has ended, NCCL does not say of what it was a member.
///
/// Thread-safe.
class Membership {
 public:
  /// A communicator of ours was made, of so many ranks.
  void add(const CommunicatorId& id, int ranks);

  /// What was said in earlier pauses: communicators may have been made since. `ours` are those that
  /// there are.
  void forget(const std::vector<CommunicatorId>& ours);
  /// A process has named its communicators, each as often as it has ranks in it.
  void note(const InstanceId& process, std::vector<CommunicatorId> said);

  struct Communicators {
    std::vector<CommunicatorId> ids;
    bool is_guess = false;  ///< it may not be a member of all of these
  };
  /// Which of `ours` the process may be a member of: those that it has named; when it has named
  /// none, all but those whose ranks are all known to be ours or others'. Nameless ones too.
  Communicators may_include(const InstanceId& process, const std::vector<CommunicatorId>& ours);

 private:
  Mutex mutex_;
  std::unordered_map<CommunicatorId, int> ranks_ AMEM_GUARDED_BY(mutex_);
  std::unordered_map<InstanceId, std::vector<CommunicatorId>> said_ AMEM_GUARDED_BY(mutex_);
};

}  // namespace amem
