// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sim/minccl/launch_ledger.h"

namespace amem::minccl {

void LaunchLedger::launched() {
  std::lock_guard lock(mutex_);
  ++outstanding_;
}

void LaunchLedger::ended() {
  std::lock_guard lock(mutex_);
  if (--outstanding_ == 0) idle_.notify_all();
}

bool LaunchLedger::wait_idle(Deadline deadline) {
  std::unique_lock lock(mutex_);
  return idle_.wait_until(lock, deadline.at(), [this] { return outstanding_ == 0; });
}

}  // namespace amem::minccl
