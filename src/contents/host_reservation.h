// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <functional>

#include "base/deadline.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace amem {

/// Host memory that this process is about to allocate. The kernel counts pages when they are first
/// written, so several processes that query the free memory at the same time would all get the same
/// answer. Until its pages are written, each process therefore locks as many bytes of a file that
/// all of them open. The lock ends with the process.
class HostReservation {
 public:
  /// What is left at this moment, without what is reserved.
  using Available = std::function<size_t()>;

  /// Reserves this much if it is free in addition to the reservations of other processes. If it is
  /// free only without them, waits until they have written their pages, and queries again. After
  /// the deadline it ignores the other reservations. Error: os (ENOMEM), with both sizes.
  ///
  /// `file` is an open file description of its own of kFile in the user's folder, or invalid. Then,
  /// and while a process that was stopped counts, nobody else counts. REQUIRES: `size_bytes` > 0.
  static Result<HostReservation> make(size_t size_bytes, const Available& available, UniqueFd file,
                                      Deadline deadline);
  static constexpr const char* kFile = "host-memory";
  /// The byte of the file that a process locks while it counts; those after it are reservations.
  static constexpr off_t kCounting = 0;

  /// Gives it up: the memory is in use now.
  ~HostReservation();
  HostReservation(HostReservation&& other) noexcept = default;

 private:
  explicit HostReservation(UniqueFd file) : file_(std::move(file)) {}

  UniqueFd file_;
};

}  // namespace amem
