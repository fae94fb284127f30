// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "base/environment.h"
#include "registry/communicator_id.h"
#include "shim/passage.h"

/// How communicators begin and end.
namespace amem {

/// NCCL reads NCCL_CUMEM_ENABLE when it makes its first communicator. Many launchers and frameworks
/// set 0, some of them after amem was loaded; with 0 nothing that NCCL allocates can be released.
void choose_cumem();

/// The calling thread's last group is about to be left, and `result` is its end's: the
/// communicators that were made in it exist now.
void end_making_in_group(Process& process, int copy, int result);

/// A communicator whose address NCCL stores in `slot` when the calling thread's group ends.
void add_when_group_ends(Comm* slot, const CommunicatorId& id);

/// Runs `make`, which fills `slot`, and remembers the communicator and its identity.
/// `identify` is called only if the call is let in: a call that was refused is none.
template <typename Identify, typename Make>
int make_communicator(Process& process, int copy, const char* name, Comm parent, Comm* slot,
                      Identify identify, Make make) {
  scan_images();
  choose_cumem();
  return inside(process, copy, name, parent, [&] {
    process.meet_neighbours();
    const CommunicatorId id = identify();
    const int result = make();
    if ((result != ncclSuccess && result != ncclInProgress) || slot == nullptr) return result;
    add_when_group_ends(slot, id);
    if (!process.gate().caller_is_in_group()) end_making_in_group(process, copy, result);
    return result;
  });
}

/// The identity of a communicator made from unique ids.
inline auto named_by(const void* unique_ids, size_t size_bytes) {
  return [=] { return communicator_from_bytes(unique_ids, size_bytes); };
}

/// The identity that `name` derives from that of `parent`; none if the parent has none.
template <typename Name>
auto derived_from(Process& process, Comm parent, Name name) {
  return [&process, parent, name] {
    CommunicatorId id;
    const bool named = process.gate().find_communicator(parent, &id) && id != kNameless;
    return named ? name(id) : kNameless;
  };
}

}  // namespace amem
