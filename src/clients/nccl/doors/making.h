// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "base/environment.h"
#include "clients/nccl/doors/passage.h"
#include "clients/nccl/gate/communicator_id.h"

/// Creation and end of communicators.
namespace amem {

/// Sets NCCL_CUMEM_ENABLE, which NCCL reads when it creates its first communicator. Many launchers
/// and frameworks set it to 0, some of them after amem was loaded. With 0, NCCL's memory cannot be
/// released.
void choose_cumem();

/// To be called before a communicator is created. Also patches images that were loaded since the
/// last scan.
void prepare_to_make();

/// The calling thread's last group is about to end, and `result` is the result of its end: the
/// communicators that were created in it now exist.
void end_making_in_group(NcclClient& client, int copy, int result);

/// Records a communicator whose address NCCL stores in `slot` when the calling thread's group ends,
/// or later, while `parent` is in progress.
void add_when_group_ends(Comm parent, Comm* slot, const CommunicatorId& id);

/// Runs `make`, which fills `slot`, and records the communicator and its identity. `identify` is
/// called only if the gate lets the call in.
template <typename Identify, typename Make>
int make_communicator(NcclClient& client, int copy, const char* name, Comm parent, Comm* slot,
                      Identify identify, Make make) {
  prepare_to_make();
  return inside(client, copy, name, parent, [&] {
    client.meet_peers();
    const CommunicatorId id = identify();
    const int result = make();
    if ((result != ncclSuccess && result != ncclInProgress) || slot == nullptr) return result;
    add_when_group_ends(parent, slot, id);
    if (!client.gate().caller_is_in_group()) end_making_in_group(client, copy, result);
    return result;
  });
}

/// The identity of a communicator created from unique ids.
inline auto named_by(const void* unique_ids, size_t size_bytes) {
  return [=] { return communicator_from_bytes(unique_ids, size_bytes); };
}

/// The identity that `name` derives from the identity of `parent`; none if the parent has none.
template <typename Name>
auto derived_from(NcclClient& client, Comm parent, Name name) {
  return [&client, parent, name] {
    CommunicatorId id;
    const bool named = client.gate().find_communicator(parent, &id) && id != kNameless;
    return named ? name(id) : kNameless;
  };
}

}  // namespace amem
