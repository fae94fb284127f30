// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/nccl/doors/passage.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "base/environment.h"
#include "base/thread_value.h"

namespace amem {
namespace {

struct PendingCommunicator {
  Comm parent;
  Comm* slot;
  Identify identify;
};
using PendingCommunicators = std::vector<PendingCommunicator>;

// Read at the end of each group.
constinit thread_local bool t_has_pending = false;

/// The number of ranks limits which processes may be members. A communicator that is still being
/// created may not be queried.
void add_member_count(NcclClient& client, int copy, Comm comm, const CommunicatorId& id,
                      int result) {
  auto* const count = result == ncclSuccess
                          ? real_function<int(Comm, int*)>(copy, NcclFunction::ncclCommCount)
                          : nullptr;
  int ranks = -1;
  if (count != nullptr && count(comm, &ranks) == ncclSuccess) client.peers.members.add(id, ranks);
}

}  // namespace

void prepare_to_make() {
  scan_images();
  log_nccl_copies();
  choose_cumem();
}

void choose_cumem() {
  if (environment().cumem == CumemMode::respect) return;
  const char* const before = getenv("NCCL_CUMEM_ENABLE");  // allow: NCCL's variable, not ours
  if (before == nullptr || strcmp(before, "1") != 0) setenv("NCCL_CUMEM_ENABLE", "1", 1);
}

void add_when_group_ends(Comm parent, Comm* slot, Identify identify) {
  thread_value<PendingCommunicators>().push_back({parent, slot, std::move(identify)});
  t_has_pending = true;
}

void end_making_in_group(NcclClient& client, int copy, int result) {
  if (!t_has_pending) return;
  t_has_pending = false;
  auto& all = thread_value<PendingCommunicators>();
  for (const PendingCommunicator& pending : all) {
    Comm* const slot = pending.slot;
    Comm const comm =
        slot == nullptr ? nullptr : std::atomic_ref(*slot).load(std::memory_order_acquire);
    // A group that fails may leave communicators, which the application aborts.
    const bool succeeded = result == ncclSuccess || result == ncclInProgress;
    if (!succeeded && (comm == nullptr || pending.parent != nullptr)) continue;
    const CommunicatorId id = pending.identify();
    if (slot == nullptr) continue;
    add_async(client, copy, comm != nullptr ? comm : pending.parent);
    // A parent that does not block is in progress until NCCL has filled the slot.
    if (comm == nullptr) {
      client.note_in_progress();
      client.async_communicators.expect_child(pending.parent, slot, id);
      continue;
    }
    client.gate.add_communicator(comm, id);
    add_member_count(client, copy, comm, id, result);
  }
  all.clear();
}

}  // namespace amem
