// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "symmetric/handle.h"

#include <utility>

namespace amem::symmetric {

detail::Report* HandleFailure::exchange_report(detail::Report* report) {
  MutexLock lock(mutex_);
  return std::exchange(report_, report);
}

void HandleFailure::set(Error why, bool abort) {
  MutexLock lock(mutex_);
  if (abort && report_ != nullptr) detail::store_volatile(&report_->abort, 1);
  if (failure_.ok()) failure_ = std::move(why);
}

Status HandleFailure::status() {
  MutexLock lock(mutex_);
  return find();
}

const char* HandleFailure::text() {
  MutexLock lock(mutex_);
  const Status& found = find();
  return found.ok() ? nullptr : found.error().message.c_str();
}

// The first failure is kept, so that its text is valid as long as the handle.
const Status& HandleFailure::find() {
  const uint32_t failed = report_ == nullptr ? 0 : detail::load_volatile(&report_->failed_peer);
  if (failure_.ok() && failed != 0)
    failure_ = make_error(
        ErrorKind::timeout, 0,
        "rank %u (process %d) did not arrive within the timeout of a kernel, or its handle has "
        "failed; the handle can only be destroyed",
        failed - 1, failed <= pids_.size() ? pids_[failed - 1] : 0);
  return failure_;
}

}  // namespace amem::symmetric
