// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/nccl/gate/async_communicators.h"

#include <time.h>

#include <algorithm>

namespace amem {

void AsyncCommunicators::add(ncclComm_t communicator, AskFunction* real) {
  if (communicator == nullptr || real == nullptr) return;
  MutexLock lock(turns_);
  communicators_[communicator] = real;
}

int AsyncCommunicators::ask(AskFunction* real, ncclComm_t communicator, int* state) {
  MutexLock lock(turns_);
  return real(communicator, state);
}

void AsyncCommunicators::forget(ncclComm_t communicator) {
  MutexLock lock(turns_);
  communicators_.erase(communicator);
  gate_.remove_communicator(communicator);
}

bool AsyncCommunicators::any_in_progress(const CommunicatorIds* ids) {
  MutexLock lock(turns_);
  for (const auto& [communicator, ask] : communicators_) {
    const CommunicatorId id = gate_.id_of(communicator);
    if (ids != nullptr && std::find(ids->begin(), ids->end(), id) == ids->end()) continue;
    int state = ncclSuccess;
    if (ask(communicator, &state) == ncclSuccess && state == ncclInProgress) return true;
  }
  return false;
}

Status AsyncCommunicators::wait_until_settled(const CommunicatorIds* ids, Deadline deadline) {
  const char* const text = "a non-blocking communicator is still working (ncclInProgress)";
  while (any() && any_in_progress(ids)) {
    AMEM_TRY(gate_.refuse_if_import_waits(text));
    if (deadline.passed()) return make_error(ErrorKind::timeout, 0, "%s", text);
    const timespec pause{0, 200'000};
    nanosleep(&pause, nullptr);
  }
  return ok_status();
}

}  // namespace amem
