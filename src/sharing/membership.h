// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <unordered_map>

#include "base/identity.h"
#include "base/mutex.h"
#include "memory/client.h"

namespace amem {

/// What other processes may share with this one, according to the replies to its pauses: by the ids
/// of their scopes, of which each has a known number of members. When a process has ended, nothing
/// else says what it shared.
///
/// Thread-safe.
class Membership {
 public:
  /// Adds an id of this process and its number of members in all processes.
  void add(const ScopeId& id, int members);

  /// That number; 0 if it is not known.
  int members_of(const ScopeId& id);

  /// Removes the numbers of members of other ids.
  void keep(const Scope& existing);
  /// Removes the information of earlier pauses, because ids may have been created since. `ours` are
  /// the existing ones.
  void forget(const Scope& ours);
  /// A process has sent its scope, each id as often as it has members in it.
  void note(const InstanceId& process, Scope its);

  struct Shared {
    Scope ids;
    bool is_guess = false;  ///< the process may not share all of them
  };
  /// The ids in `ours` of which the process may be a member: those that it has sent. If it has sent
  /// none: all except those whose members are all known to be in this process or in others.
  /// Includes kNoIdentity.
  Shared may_include(const InstanceId& process, const Scope& ours);

 private:
  Mutex mutex_;
  std::unordered_map<ScopeId, int> members_ AMEM_GUARDED_BY(mutex_);
  std::unordered_map<InstanceId, Scope> sent_ AMEM_GUARDED_BY(mutex_);
};

}  // namespace amem
