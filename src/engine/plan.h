// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <map>
#include <vector>

#include "registry/buffer_contents.h"

namespace amem {

/// One thing to do with one backing. A pause runs save, drop, release; a resume runs create, fill,
/// fetch.
struct Step {
  enum class Action {
    save,     ///< copy what must be kept to the host
    drop,     ///< unmap and release an import
    release,  ///< unmap and release a backing of ours; its contents are saved
    create,   ///< make the memory again, mapped where it was
    fill,     ///< give it its contents, or zero
    fetch,    ///< ask an import's owner for it, and map it
  };
  Action action;
  BackingId backing;
  bool operator==(const Step&) const = default;
};

using AllocationMap = std::map<AllocationId, Allocation>;
using BackingMap = std::map<BackingId, Backing>;

/// True when something in the backing must never leave, and so all of it.
bool is_persistent(const Backing& backing, const AllocationMap& allocations);

/// What of the backing's bytes is copied to the host, in order; neighbours are one piece. Pure.
std::vector<Piece> pieces_to_save(const Backing& backing, const AllocationMap& allocations,
                                  const ContentSettings& settings);
size_t total_bytes(const std::vector<Piece>& pieces);

/// What a pause does, in order: all saves, then all drops, then all releases. Pure. Nothing appears
/// that is persistent or is away already.
std::vector<Step> plan_pause(const BackingMap& backings, const AllocationMap& allocations);

/// What a resume does, in order: all creates, then all fills, then all fetches. Pure; also right
/// after a resume that broke off.
std::vector<Step> plan_resume(const BackingMap& backings);

/// What brings back the state before `begun`, steps of a pause of which the last may have broken
/// off: pure.
std::vector<Step> inverse(const std::vector<Step>& begun);

}  // namespace amem
