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
  std::string counts;  ///< floats of each collective for each rank, in the format of a command
};

/// W(c): c communicators over all GPUs; each has run every collective of jobs/collectives.def with
/// every count. One process for each GPU. All functions throw std::runtime_error with the text of a
/// rank that fails.
class Workload {
 public:
  Workload(const Contender& contender, WorkloadSize size);
  ~Workload();  ///< all ranks end at the same time

  const std::string& contender() const { return contender_; }
  const WorkloadSize& size() const { return size_; }
  jobs::Job& job() { return job_; }
  /// The name of the communicator in commands.
  static std::string name(int communicator);

  /// Creates the communicators and runs everything on each of them, which connects it. Returns the
  /// controller's time in seconds until the slowest rank is done.
  double set_up();
  /// Destroys the communicators. Returns seconds.
  double tear_down();
  /// Runs everything again without a check.
  void use();
  /// Runs everything again and compares every element of every result. Returns false and prints the
  /// reason to standard error if a result was wrong or a rank failed.
  bool check();

  /// The memory in use on each rank's GPU, by all processes, according to the driver.
  std::vector<uint64_t> used_bytes();
  /// The same, minus the memory in use before the first communicator.
  std::vector<uint64_t> used_since_start_bytes();

 private:
  void order_all(const std::string& order, const std::string& rest);

  std::string contender_;
  WorkloadSize size_;
  jobs::Job job_;
  std::vector<uint64_t> bare_bytes_;
};

/// The largest of the numbers in the replies.
double slowest(const std::vector<std::string>& answers);

/// a - b for each element; 0 if b is larger.
std::vector<uint64_t> less(const std::vector<uint64_t>& a, const std::vector<uint64_t>& b);

}  // namespace bench
