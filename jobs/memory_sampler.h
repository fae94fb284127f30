// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "jobs/orders.h"

namespace jobs {

/// Looks again and again at how much memory of the rank's device is in use, by all processes, on a
/// thread of its own. For a rank that does nothing else: one that pauses cannot be asked meanwhile.
class MemorySampler {
 public:
  /// `samples_begin PERIOD_US` answers when the first sample is taken, `samples` with how many
  /// there are. `samples_end` answers with "NS BYTES" of each, in order: the CLOCK_MONOTONIC after
  /// the driver was asked, and what is in use. Of equal samples in a row only the first and the
  /// last are told. They refer to this object.
  Orders orders();

 private:
  struct Sample {
    int64_t at_ns;
    uint64_t used_bytes;
  };

  std::string begin(Words& words);
  std::string end(Words&);
  void take();

  std::thread thread_;
  std::atomic<bool> stop_{false};
  std::atomic<long> taken_{0};
  std::vector<Sample> samples_;
  std::string error_;
};

}  // namespace jobs
