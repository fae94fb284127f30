// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/nccl/doors/passage.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/environment.h"
#include "base/thread_value.h"

namespace amem {
namespace {

struct PendingCommunicator {
  Comm parent;
  Comm* slot;
  CommunicatorId id;
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
  if (count != nullptr && count(comm, &ranks) == ncclSuccess) client.members.add(id, ranks);
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

void add_when_group_ends(Comm parent, Comm* slot, const CommunicatorId& id) {
  thread_value<PendingCommunicators>().push_back({parent, slot, id});
  t_has_pending = true;
}

void end_making_in_group(NcclClient& client, int copy, int result) {
  if (!t_has_pending) return;
  t_has_pending = false;
  auto& all = thread_value<PendingCommunicators>();
  for (const PendingCommunicator& pending : all) {
    Comm const comm = std::atomic_ref(*pending.slot).load(std::memory_order_acquire);
    // A parent that does not block is in progress until NCCL has filled the slot.
    if (comm == nullptr) {
      client.gate.add_unseen(pending.id);
      client.note_in_progress();
      add_async(client, copy, pending.parent);
      continue;
    }
    client.gate.add_communicator(comm, pending.id);
    add_async(client, copy, comm);
    add_member_count(client, copy, comm, pending.id, result);
  }
  all.clear();
}

}  // namespace amem
