// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace amem::cycles {

/// A barrier for the ranks of one communicator on this host: a file of this user's folder in
/// /dev/shm whose size is the number of arrivals. No process maps it, because an access to a
/// mapping raises SIGBUS when the file was truncated or the file system is full. The file has no
/// name any more when all ranks have arrived once.
///
/// Thread-safe: ranks of one process arrive on threads of their own, or together.
class Rendezvous {
 public:
  /// On failure, nullptr and the failed call in `*error`.
  static std::unique_ptr<Rendezvous> open(const std::string& communicator, int ranks,
                                          std::string* error);
  Rendezvous(std::string path, int ranks, int file)
      : path_(std::move(path)), ranks_(ranks), file_(file) {}
  Rendezvous(const Rendezvous&) = delete;
  ~Rendezvous();

  /// `arriving` ranks arrive for the `time`-th time, counted from 1, and wait for all others up to
  /// `timeout_ms`. Returns "", or the error, which is final: later calls fail at once.
  std::string arrive(uint32_t time, int arriving, long timeout_ms);
  static std::string path_of(const std::string& communicator);

 private:
  long missing(uint32_t time) const;

  const std::string path_;
  const int ranks_;
  const int file_;  ///< one byte for each rank that has arrived since the beginning
  std::atomic<bool> failed_{false};
};

}  // namespace amem::cycles
