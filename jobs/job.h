// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace jobs {

/// Where programs and libraries of a build are, and how its ranks find them.
struct Setup {
  std::string rank_program;                        ///< amem_rank
  std::map<std::string, std::string> environment;  ///< added to this process' own
  int deadline_ms = 120000;                        ///< for every answer
  int shared_gpus = 0;  ///< GPUs that the ranks share; 0: each has a device to itself
};

/// One amem_rank process.
class RankProcess {
 public:
  RankProcess(const Setup& setup, const std::map<std::string, std::string>& environment);
  ~RankProcess();  ///< closes its input, then kills what does not end
  RankProcess(const RankProcess&) = delete;

  /// Sends an order; answer() waits for what it says: "ok" stripped. Throws std::runtime_error with
  /// the rank's own error text, or when it died or did not answer by the deadline.
  void order(const std::string& line);
  std::string answer();
  std::string ask(const std::string& line) {
    order(line);
    return answer();
  }
  /// What the rank says, for orders that may succeed or fail. Throws only when it says nothing.
  struct Outcome {
    bool ok;
    std::string text;
  };
  Outcome outcome();
  /// The text of the error that the last order is expected to give; throws when it succeeded.
  std::string failure();
  std::string ask_failing(const std::string& line);

  pid_t pid() const { return pid_; }
  void kill(int signal);
  /// Waits until the process has ended; its status as wait(2) has it. Throws at the deadline.
  int wait_until_ended();
  /// What the process wrote to standard error so far.
  std::string log() const;
  /// "rank 4711: waits at 'pause', last step pause_asked". Steps are those of a library built with
  /// AMEM_SEEDED_FAULTS (src/engine/step_points.def); others report none.
  std::string where() const;

 private:
  std::string read_line();
  /// Throws std::runtime_error: `what`, this rank's log, and where() of all ranks of this process.
  [[noreturn]] void give_up(const std::string& what) const;

  pid_t pid_ = -1;
  int in_ = -1, out_ = -1, log_ = -1;
  int step_ = -1;  ///< a file in which the rank keeps the name of its last step
  int deadline_ms_;
  std::string buffer_, last_order_;
  bool waits_ = false;  ///< for the answer to the last order
};

/// Ranks that work together. Orders go to all before any answer is awaited, as collectives need.
class Job {
 public:
  Job(const Setup& setup, int ranks, const std::map<std::string, std::string>& environment = {});

  RankProcess& operator[](int rank) { return *ranks_[static_cast<size_t>(rank)]; }
  int size() const { return static_cast<int>(ranks_.size()); }

  /// Rank r works on device devices[r], or devices[r] % shared_gpus where GPUs are shared.
  void use_devices(const std::vector<int>& devices);
  /// A communicator of these members (all when empty), in this order.
  void make(const std::string& name, std::vector<int> members = {});
  std::vector<std::string> all(const std::string& order);
  std::vector<std::string> some(const std::vector<int>& members, const std::string& order);

 private:
  std::vector<std::unique_ptr<RankProcess>> ranks_;
  int shared_gpus_;
};

}  // namespace jobs
