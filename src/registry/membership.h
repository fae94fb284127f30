// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <unordered_map>
#include <vector>

#include "base/call_counts.h"
#include "base/mutex.h"
#include "registry/call_counter.h"

namespace amem {

/// Which ranks of our communicators other processes are, by what they have said when they let go of
/// our memory. When one has ended, NCCL does not say of what it was a member.
///
/// Thread-safe.
class Membership {
 public:
  /// What was said in the pauses before: communicators may have been made since.
  void forget();
  void note(const InstanceId& process, const CallCounts& said);

  struct Communicators {
    std::vector<CommunicatorId> ids;
    bool is_guess = false;  ///< it may not be a member of all of these
  };
  /// Which of `ids`, communicators of ours, the process may be a member of. Not one of which all
  /// ranks are ours or others'; when it has told all of its own, no other; else nameless ones too.
  Communicators may_include(const InstanceId& process, const std::vector<CommunicatorId>& ids,
                            CallCounter& calls);

 private:
  Mutex mutex_;
  std::unordered_map<InstanceId, CallCounts> said_ AMEM_GUARDED_BY(mutex_);
};

}  // namespace amem
