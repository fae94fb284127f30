// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "memory/backing_state.h"

#include <cinttypes>

namespace amem {
namespace {

struct Change {
  BackingState from, to;
};

using enum BackingState;
constexpr Change kLegal[] = {
    // Pause of the owner, and its rollback.
    {resident, saving},
    {saving, released},
    {saving, resident},
    {saving, restoring},
    // Resume of the owner, and its failure.
    {released, restoring},
    {restoring, resident},
    {restoring, released},
    // An import: the owner pauses and resumes.
    {mapped, revoked},
    {revoked, mapped},
    // An import: this process pauses and resumes; meanwhile the owner may have paused.
    {mapped, dropped},
    {revoked, dropped},
    {dropped, mapped},
    {dropped, revoked},
    // The owner has ended, or has freed the memory.
    {mapped, lost},
    {revoked, lost},
    {dropped, lost},
};

}  // namespace

const char* state_name(BackingState state) {
  // In the order of BackingState.
  constexpr const char* kNames[] = {"resident", "saving",  "released", "restoring",
                                    "mapped",   "revoked", "dropped",  "lost"};
  return kNames[static_cast<int>(state)];
}

const char* kind_name(Kind kind) {
  constexpr const char* kNames[kKinds] = {"keep", "discard", "persistent",
                                          "disk", "zero",    "retain"};
  return kNames[static_cast<int>(kind)];
}

bool is_legal(BackingState from, BackingState to) {
  for (const Change& change : kLegal)
    if (change.from == from && change.to == to) return true;
  return false;
}

Status change_state(Backing& backing, BackingState to) {
  if (!is_legal(backing.state, to))
    return make_error(ErrorKind::misuse, 0, "backing %" PRIu64 " cannot change from %s to %s",
                      backing.id, state_name(backing.state), state_name(to));
  backing.state = to;
  return ok_status();
}

}  // namespace amem
