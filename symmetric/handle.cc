// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "symmetric/handle.h"

#include <utility>

namespace amem::symmetric {

void SymmetricHandle::set_report(detail::Report* report) {
  MutexLock lock(mutex_);
  report_ = report;
}

detail::Report* SymmetricHandle::take_report() {
  MutexLock lock(mutex_);
  return std::exchange(report_, nullptr);
}

Status SymmetricHandle::status() {
  MutexLock lock(mutex_);
  return status_locked();
}

// The first failure is kept, so that its text is valid as long as the handle.
Status SymmetricHandle::status_locked() {
  const uint32_t failed =
      report_ == nullptr ? 0 : detail::load_volatile(&report_->failed_peer);
  if (failure_.ok() && failed != 0)
    failure_ = make_error(
        ErrorKind::timeout, 0,
        "rank %u (process %d) did not arrive within the timeout of a kernel, or its handle has "
        "failed; the handle can only be destroyed",
        failed - 1, failed <= pids.size() ? pids[failed - 1] : 0);
  return failure_;
}

void SymmetricHandle::fail(Error why, bool abort) {
  MutexLock lock(mutex_);
  if (abort && report_ != nullptr) detail::store_volatile(&report_->abort, 1);
  if (failure_.ok()) failure_ = std::move(why);
}

const char* SymmetricHandle::failure_text() {
  MutexLock lock(mutex_);
  const Status status = status_locked();
  return status.ok() ? nullptr : failure_.error().message.c_str();
}

}  // namespace amem::symmetric
