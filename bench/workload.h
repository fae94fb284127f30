// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/contenders.h"
#include "jobs/job.h"

namespace bench {

struct WorkloadSize {
  int gpus = 0;
  int communicators = 0;
  std::string counts;  ///< floats a rank of each collective, as they stand in an order
};

/// W(c): c communicators over all GPUs, each of which has run every collective of
/// jobs/collectives.def with every count. One process a GPU. A rank
/// that fails throws std::runtime_error with its text out of any of these.
class Workload {
 public:
  Workload(const Contender& contender, WorkloadSize size);
  ~Workload();  ///< all ranks end at once, not one after the other

  const std::string& contender() const { return contender_; }
  const WorkloadSize& size() const { return size_; }
  jobs::Job& job() { return job_; }
  /// What the communicators are called in orders.
  static std::string name(int communicator);

  /// Makes the communicators and lets each run everything, which connects it. Seconds by the
  /// controller's clock, until the slowest rank is done.
  double set_up();
  /// Destroys the communicators; seconds likewise.
  double tear_down();
  /// Everything once more, results not looked at.
  void use();
  /// Everything once more, every element of every result compared. False, and says on standard
  /// error what was wrong, when one was or a rank failed.
  bool check();

  /// What the driver says is in use on each rank's GPU, by all processes.
  std::vector<uint64_t> used_bytes();
  /// The same, less what was in use before the first communicator.
  std::vector<uint64_t> used_since_start_bytes();

 private:
  void order_all(const std::string& order, const std::string& rest);

  std::string contender_;
  WorkloadSize size_;
  jobs::Job job_;
  std::vector<uint64_t> bare_bytes_;
};

/// The collective whose calls for no data are timed: they launch nothing. A send of nothing does.
inline constexpr const char* kEmptyCollective = "all_reduce";

/// The largest of the numbers that ranks answered.
double slowest(const std::vector<std::string>& answers);

/// a - b element by element; 0 where b is larger.
std::vector<uint64_t> less(const std::vector<uint64_t>& a, const std::vector<uint64_t>& b);

}  // namespace bench
