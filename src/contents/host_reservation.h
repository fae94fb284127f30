// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <functional>
#include <string>

#include "base/deadline.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace amem {

/// Host memory that this process is about to allocate. The kernel counts pages when they are first
/// written, so several processes that query the free memory at the same time would all get the same
/// answer. Each process therefore records its reservation in a locked file until its pages are
/// written. The lock ends with the process.
class HostReservation {
 public:
  /// What is left at this moment, without what is reserved.
  using Available = std::function<size_t()>;

  /// Reserves this much if it is free in addition to the reservations of other processes. If it is
  /// free only without them, waits until they have written their pages, and queries again. After
  /// the deadline it ignores the other reservations. Error: os (ENOMEM), with both sizes.
  ///
  /// `folder` is that of the user (base/user_folder.h), or "" if it cannot be used. Then, and while
  /// a process that was stopped keeps its lock, nobody else counts.
  static Result<HostReservation> make(size_t size_bytes, const Available& available,
                                      const std::string& folder, Deadline deadline);

  /// Gives it up: the memory is in use now.
  ~HostReservation();
  HostReservation(HostReservation&& other) noexcept = default;

 private:
  HostReservation() = default;

  std::string path_;
  UniqueFd file_;
};

}  // namespace amem
