// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>
#include <string>
#include <thread>

#include "jobs/collectives.h"

namespace jobs {

/// Work that goes on while something else happens: checked all_reduces on a thread of their own,
/// without end. All members of the communicator run one; when one of them is told to finish, all
/// end after the same round, because the wish to end travels with each round.
class BackgroundLoop {
 public:
  void start(Communicator& communicator, Context context, size_t count);
  /// Rounds done so far. Any thread.
  long rounds() const { return rounds_; }
  /// Ends the loop on every member. Returns the rounds done; throws what ended the loop when that
  /// was a fault.
  long finish();

 private:
  std::thread thread_;
  std::atomic<long> rounds_{0};
  std::atomic<bool> finish_{false};
  std::string error_;
};

}  // namespace jobs
