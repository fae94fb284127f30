// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/nccl/gate/async_communicators.h"

#include <time.h>

namespace amem {

void AsyncCommunicators::add(ncclComm_t communicator, AskFunction* real) {
  if (communicator == nullptr || real == nullptr) return;
  MutexLock lock(turns_);
  communicators_[communicator] = real;
}

void AsyncCommunicators::expect_child(ncclComm_t parent, ncclComm_t* slot,
                                      const CommunicatorId& id) {
  MutexLock lock(turns_);
  children_.emplace(parent, std::pair(slot, id));
  gate_.add_pending(id);
}

int AsyncCommunicators::ask(AskFunction* real, ncclComm_t communicator, int* state) {
  MutexLock lock(turns_);
  const int result = real(communicator, state);
  if (result == ncclSuccess && state != nullptr && *state != ncclInProgress)
    end_children(communicator, true);
  return result;
}

void AsyncCommunicators::end_children(ncclComm_t parent, bool have_slots) {
  const auto [begin, end] = children_.equal_range(parent);
  for (auto child = begin; child != end; ++child) {
    const auto& [slot, id] = child->second;
    ncclComm_t const stored = have_slots ? std::atomic_ref(*slot).load() : nullptr;
    gate_.remove_pending(id, stored);
    if (stored != nullptr) communicators_[stored] = communicators_[parent];
  }
  children_.erase(begin, end);
}

void AsyncCommunicators::forget(ncclComm_t communicator) {
  MutexLock lock(turns_);
  end_children(communicator, false);
  communicators_.erase(communicator);
  gate_.remove_communicator(communicator);
}

bool AsyncCommunicators::any_in_progress(const CommunicatorIds* ids) {
  MutexLock lock(turns_);
  for (const auto& [communicator, ask] : communicators_) {
    const CommunicatorId id = gate_.id_of(communicator);
    if (ids != nullptr && !contains(*ids, id)) continue;
    int state = ncclSuccess;
    if (ask(communicator, &state) == ncclSuccess && state == ncclInProgress) return true;
  }
  return false;
}

Status AsyncCommunicators::wait_until_settled(const CommunicatorIds* ids, Deadline deadline) {
  const char* const text = "a non-blocking communicator is still working (ncclInProgress)";
  while (any() && any_in_progress(ids)) {
    AMEM_TRY(gate_.refuse_if_import_waits(text));
    if (deadline.passed()) return timeout_error("%s", text);
    const timespec pause{0, 200'000};
    nanosleep(&pause, nullptr);
  }
  return ok_status();
}

}  // namespace amem
