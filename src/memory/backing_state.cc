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
  switch (state) {
    case resident:
      return "resident";
    case saving:
      return "saving";
    case released:
      return "released";
    case restoring:
      return "restoring";
    case mapped:
      return "mapped";
    case revoked:
      return "revoked";
    case dropped:
      return "dropped";
    case lost:
      return "lost";
  }
  return "?";
}

const char* kind_name(Kind kind) {
  switch (kind) {
    case Kind::keep:
      return "keep";
    case Kind::discard:
      return "discard";
    case Kind::persistent:
      return "persistent";
  }
  return "?";
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
