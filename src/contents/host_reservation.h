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
/// written, so that several processes that ask at the same time how much is left would all get the
/// same answer. Each of them therefore writes down what it is about to use, until it has it: in a
/// locked file, whose lock ends with the process.
class HostReservation {
 public:
  /// What is left at this moment, without what is reserved.
  using Available = std::function<size_t()>;

  /// Reserves, if this much is left beside the reservations of other processes. If it is left
  /// without them only, waits until these have what they reserved, and asks again; at the deadline
  /// the other reservations do not count any more. Error: os (ENOMEM), with both sizes.
  ///
  /// `folder` is that of the user (base/user_folder.h). Where it cannot be used, and while a
  /// process that was stopped keeps its lock, nobody else counts.
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
