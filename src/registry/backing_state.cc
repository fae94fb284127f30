// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "registry/backing_state.h"

#include <cinttypes>

namespace amem {
namespace {

struct Change {
  BackingState from, to;
};

using enum BackingState;
constexpr Change kLegal[] = {
    // Pause of the owner, and the way back when it fails.
    {resident, saving},
    {saving, released},
    {saving, resident},
    {saving, restoring},
    // Resume of the owner, and the way back when it fails.
    {released, restoring},
    {restoring, resident},
    {restoring, released},
    // An import: the owner goes away and comes back.
    {mapped, let_go},
    {let_go, mapped},
    // An import: we go away and come back; the owner may be away by then.
    {mapped, dropped},
    {let_go, dropped},
    {dropped, mapped},
    {dropped, let_go},
    // The owner has ended, or has freed it.
    {mapped, lost},
    {let_go, lost},
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
    case let_go:
      return "let go";
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
    return make_error(ErrorKind::misuse, 0, "backing %" PRIu64 " cannot go from %s to %s",
                      backing.id, state_name(backing.state), state_name(to));
  backing.state = to;
  return ok_status();
}

}  // namespace amem
