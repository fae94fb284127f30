// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sharing/local_members.h"

#include <algorithm>
#include <utility>

#include "base/file_lock.h"
#include "base/user_folder.h"
#include "memory/client.h"

namespace amem {
namespace {

constexpr char kFile[] = "members";
constexpr int kMaxMembers = 1 << 16;

/// The byte of member 0. Scopes with the same 46 bits would only find each other's bytes locked.
off_t place_of(const ScopeId& id) {
  constexpr uint64_t kBits = (uint64_t{1} << 46) - 1;
  return static_cast<off_t>((id.bits[0] & kBits) * kMaxMembers);
}

}  // namespace

bool LocalMembers::lock(const ScopeId& id, int members, int member) {
  if (id == kNoIdentity || members > kMaxMembers || member < 0 || member >= members) return false;
  if (!file_.valid()) {
    Result<UniqueFd> file = open_user_file(kFile);
    if (!file.ok()) return false;
    file_ = std::move(file.value());
  }
  return file_.is_open() &&
         lock_file(file_.get(), F_OFD_SETLK, F_WRLCK, place_of(id) + member, 1).has_value();
}

void LocalMembers::join(const ScopeId& id, int members, int member) {
  MutexLock guard(mutex_);
  if (!lock(id, members, member)) {
    may_be_anywhere_ = true;
    return;
  }
  scopes_[id].members = members;
  scopes_[id].own.insert(member);
}

bool LocalMembers::is_complete(const ScopeId& id, Scope& scope) {
  for (int member = 0; member < scope.members && !scope.is_complete; ++member) {
    if (scope.own.contains(member)) continue;
    const auto held = lock_file(file_.get(), F_OFD_GETLK, F_WRLCK, place_of(id) + member, 1);
    if (!held.has_value() || held->l_type == F_UNLCK) return false;
  }
  return scope.is_complete = true;
}

bool LocalMembers::are_on_this_host() {
  MutexLock guard(mutex_);
  return !may_be_anywhere_ &&
         std::all_of(scopes_.begin(), scopes_.end(), [this](auto& entry) AMEM_REQUIRES(mutex_) {
           return is_complete(entry.first, entry.second);
         });
}

bool LocalMembers::has_joined() {
  MutexLock guard(mutex_);
  return !scopes_.empty();
}

}  // namespace amem
