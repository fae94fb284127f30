// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>
#include <string>
#include <thread>

#include "jobs/collectives.h"

namespace jobs {

/// Background work: checked all_reduces on a separate thread. All members of the communicator run
/// one. When one of them is told to finish, all end after the same round, because each round
/// carries this request.
class BackgroundLoop {
 public:
  void start(Communicator& communicator, Context context, size_t count);
  /// The number of completed rounds. Any thread.
  long rounds() const { return rounds_; }
  /// Ends the loop on every member. Returns the number of rounds; throws the error that ended the
  /// loop, if any.
  long finish();

 private:
  std::thread thread_;
  std::atomic<long> rounds_{0};
  std::atomic<bool> finish_{false};
  std::string error_;
};

}  // namespace jobs
