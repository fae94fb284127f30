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

/// Samples the memory in use on the rank's device, by all processes, on a separate thread. For a
/// rank without other work: a rank that pauses cannot reply at the same time.
class MemorySampler {
 public:
  /// `samples_begin PERIOD_US` replies when the first sample is taken; `samples` returns the number
  /// of samples. `samples_end` returns "NS BYTES" for each in order: CLOCK_MONOTONIC after the
  /// query, and the memory in use. Of equal consecutive samples it returns only the first and the
  /// last. The commands refer to this object.
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
