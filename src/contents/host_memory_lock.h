// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <functional>
#include <string>

#include "base/deadline.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace amem {

/// Lets the processes of a user allocate host memory one after another where it is scarce. The
/// kernel counts pages when they are first written, so processes that query the free memory at the
/// same time would all get the same answer.
class HostMemoryLock {
 public:
  /// Memory is scarce if less than this multiple of what is needed is left.
  static constexpr size_t kScarce = 32;

  /// What is left at this moment.
  using Available = std::function<size_t()>;

  /// Makes sure that this much is left, to be held until the pages are written. Waits for the lock
  /// up to the deadline, then goes on without it: a process that was stopped keeps it. The lock
  /// ends with its process. Error: os (ENOMEM), with both sizes.
  ///
  /// `folder` is that of the user (base/user_folder.h). Where it cannot be used nobody waits.
  static Result<HostMemoryLock> take(size_t size_bytes, const Available& available,
                                     const std::string& folder, Deadline deadline);

  ~HostMemoryLock();
  HostMemoryLock(HostMemoryLock&&) noexcept = default;

 private:
  explicit HostMemoryLock(UniqueFd file) : file_(std::move(file)) {}

  UniqueFd file_;
};

}  // namespace amem
