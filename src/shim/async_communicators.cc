// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "shim/async_communicators.h"

#include <time.h>

#include <algorithm>

#include "shim/real_nccl.h"

namespace amem {

int AsyncCommunicators::ask(AskFunction real, ncclComm_t communicator, int* state) {
  MutexLock lock(turns_);
  return real(communicator, state);
}

void AsyncCommunicators::forget(ncclComm_t communicator) {
  MutexLock lock(turns_);
  gate_.remove_communicator(communicator);
}

bool AsyncCommunicators::is_working(AskFunction real, ncclComm_t communicator,
                                    const std::vector<CommunicatorId>* ids) {
  MutexLock lock(turns_);
  CommunicatorId id;
  int state = ncclSuccess;
  if (!gate_.find_communicator(communicator, &id)) return false;
  if (ids != nullptr && std::find(ids->begin(), ids->end(), id) == ids->end()) return false;
  return real(communicator, &state) == ncclSuccess && state == ncclInProgress;
}

Status AsyncCommunicators::wait_until_settled(const std::vector<CommunicatorId>* ids,
                                              Deadline deadline) {
  if (!any_.load(std::memory_order_relaxed)) return ok_status();
  const Result<void*> symbol = real_nccl_symbol("ncclCommGetAsyncError");
  if (!symbol.ok() || symbol.value() == nullptr) return ok_status();
  const auto real = reinterpret_cast<AskFunction>(symbol.value());
  for (const void* known : gate_.communicators()) {
    const auto communicator = static_cast<ncclComm_t>(const_cast<void*>(known));
    while (is_working(real, communicator, ids)) {
      if (deadline.passed())
        return make_error(ErrorKind::timeout, 0,
                          "a non-blocking communicator is still working (ncclInProgress)");
      const timespec pause{0, 200'000};
      nanosleep(&pause, nullptr);
    }
  }
  return ok_status();
}

}  // namespace amem
