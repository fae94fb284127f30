// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "base/deadline.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "clients/nccl/gate/communicator_id.h"

namespace amem {

/// A barrier for the ranks of one communicator on this host: a file of user_folder() whose size is
/// the number of arrivals. No process maps it, because an access to a mapping raises SIGBUS when
/// the file was truncated or the file system is full. The file has no name any more when all ranks
/// have arrived once.
///
/// Thread-safe: ranks of one process arrive on threads of their own, or together.
class Rendezvous {
 public:
  /// Errors: os.
  static Result<std::unique_ptr<Rendezvous>> open(const CommunicatorId& communicator, int ranks);
  Rendezvous(const Rendezvous&) = delete;

  /// `arriving` ranks arrive for the `time`-th time, counted from 1, and wait for all others.
  /// Errors: os, timeout. An error is final: later calls return it at once.
  Status arrive(uint32_t time, int arriving, Deadline deadline);

 private:
  Rendezvous(std::string path, int ranks, UniqueFd file)
      : path_(std::move(path)), ranks_(ranks), file_(std::move(file)) {}

  const std::string path_;
  const int ranks_;
  const UniqueFd file_;  ///< one byte for each rank that has arrived since the beginning
  std::atomic<bool> failed_{false};
};

}  // namespace amem
