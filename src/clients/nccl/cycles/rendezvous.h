// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "base/deadline.h"
#include "base/result.h"
#include "clients/nccl/gate/communicator_id.h"

namespace amem {

/// A barrier for the ranks of one communicator on this host: a counter in a file of user_folder()
/// that all processes of the communicator map. The file has no name any more when all ranks have
/// arrived once.
///
/// Thread-safe: ranks of one process arrive on threads of their own, or together.
class Rendezvous {
 public:
  /// Errors: os.
  static Result<std::unique_ptr<Rendezvous>> open(const CommunicatorId& communicator, int ranks);
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;

  /// `arriving` ranks arrive for the `time`-th time, counted from 1, and wait for all others.
  /// Errors: timeout. An error is final: later calls return it at once.
  Status arrive(uint32_t time, int arriving, Deadline deadline);

 private:
  using Counter = std::atomic<uint32_t>;
  Rendezvous(std::string path, int ranks, Counter* arrived)
      : path_(std::move(path)), ranks_(static_cast<uint32_t>(ranks)), arrived_(arrived) {}

  const std::string path_;
  const uint32_t ranks_;
  Counter* const arrived_;  ///< ranks that have arrived since the beginning, in shared memory
  std::atomic<bool> failed_{false};
};

}  // namespace amem
