// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <map>
#include <set>

#include "base/identity.h"
#include "base/mutex.h"
#include "base/unique_fd.h"

namespace amem {

/// Whether all members of the scopes that this process has joined are on this host. Every member
/// locks a byte of a file of its user (docs/wire_protocol.md, Members), which the kernel unlocks
/// when its process ends. Thread-safe.
class LocalMembers {
 public:
  /// This process is about to become the member numbered `member` of `members`, before anything is
  /// shared with the others. Again without effect. kNoIdentity: others may be anywhere.
  void join(const ScopeId& id, int members, int member);

  /// True if there is no member that may be on another host.
  bool are_on_this_host();
  bool has_joined();

 private:
  struct Scope {
    int members = 0;
    std::set<int> own{};
    bool is_complete = false;
  };
  bool lock(const ScopeId& id, int members, int member) AMEM_REQUIRES(mutex_);
  bool is_complete(const ScopeId& id, Scope& scope) AMEM_REQUIRES(mutex_);

  Mutex mutex_;
  UniqueFd file_ AMEM_GUARDED_BY(mutex_);
  std::map<ScopeId, Scope> scopes_ AMEM_GUARDED_BY(mutex_);
  bool may_be_anywhere_ AMEM_GUARDED_BY(mutex_) = false;
};

}  // namespace amem
