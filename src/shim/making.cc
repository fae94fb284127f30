// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "shim/making.h"

#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/thread_value.h"

namespace amem {
namespace {

struct PendingCommunicator {
  Comm* slot;
  CommunicatorId id;
};
using PendingCommunicators = std::vector<PendingCommunicator>;

// Read at the end of each group.
constinit thread_local bool t_has_pending = false;

/// Who may be a member is known better of a communicator whose ranks are counted. One that is still
/// being made may not be asked.
void add_member_count(Process& process, int copy, Comm comm, const CommunicatorId& id, int result) {
  auto* const count = result == ncclSuccess
                          ? real_function<int(Comm, int*)>(copy, NcclFunction::ncclCommCount)
                          : nullptr;
  int ranks = -1;
  if (count != nullptr && count(comm, &ranks) == ncclSuccess) process.members().add(id, ranks);
}

}  // namespace

void choose_cumem() {
  if (environment().cumem == CumemMode::respect) return;
  const char* const before = getenv("NCCL_CUMEM_ENABLE");  // allow: NCCL's variable, not ours
  if (before == nullptr || strcmp(before, "1") != 0) setenv("NCCL_CUMEM_ENABLE", "1", 1);
}

void add_when_group_ends(Comm* slot, const CommunicatorId& id) {
  thread_value<PendingCommunicators>().push_back({slot, id});
  t_has_pending = true;
}

void end_making_in_group(Process& process, int copy, int result) {
  if (!t_has_pending) return;
  t_has_pending = false;
  auto& all = thread_value<PendingCommunicators>();
  for (const PendingCommunicator& pending : all) {
    // Of a communicator with a parent that does not block, NCCL fills the slot some time later, and
    // the split may have returned ncclSuccess (init.cc of NCCL 2.31).
    if (*pending.slot == nullptr) {
      process.gate().add_unseen(pending.id);
      continue;
    }
    process.gate().add_communicator(*pending.slot, pending.id);
    add_member_count(process, copy, *pending.slot, pending.id, result);
    if (result == ncclInProgress)
      process.note_in_progress(*pending.slot, real_function<AsyncCommunicators::AskFunction>(
                                                  copy, NcclFunction::ncclCommGetAsyncError));
  }
  all.clear();
}

}  // namespace amem
