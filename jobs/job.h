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

/// The locations of programs and libraries of a build, and the settings of its ranks.
struct Setup {
  std::string rank_program;                        ///< amem_rank
  std::map<std::string, std::string> environment;  ///< added to the environment of this process
  std::map<int, std::map<std::string, std::string>> environment_of_rank;  ///< of a Job's ranks
  int deadline_ms = 120000;                                               ///< for each reply
  int shared_gpus = 0;  ///< number of GPUs that the ranks share; 0: one device for each rank
};

/// One amem_rank process.
class RankProcess {
 public:
  RankProcess(const Setup& setup, const std::map<std::string, std::string>& environment);
  ~RankProcess();  ///< closes its input, then kills it if it does not end
  RankProcess(const RankProcess&) = delete;

  /// Sends a command; answer() waits for the reply, without its "ok". Throws std::runtime_error
  /// with the rank's error text, or if the rank ended or did not reply by the deadline.
  void order(const std::string& line);
  std::string answer();
  std::string ask(const std::string& line) {
    order(line);
    return answer();
  }
  /// The reply to a command that may fail. Throws only if there is no reply.
  struct Outcome {
    bool ok;
    std::string text;
  };
  Outcome outcome();
  /// Whether the reply comes in this time; it is not read.
  bool replies_within(int limit_ms) const;
  /// The error text of the last command, which must fail; throws if it succeeded.
  std::string failure();
  std::string ask_failing(const std::string& line);

  pid_t pid() const { return pid_; }
  void kill(int signal);
  /// Waits until the process has ended. Returns its status as in wait(2). Throws at the deadline.
  int wait_until_ended();
  /// The last bytes that the process has written to standard error.
  std::string log(off_t most_bytes = 4000) const;
  /// "rank 4711: waits at 'pause', last step pause_asked". A library built with AMEM_SEEDED_FAULTS
  /// reports steps (tests/faults/step_points.def); others report none.
  std::string where() const;

 private:
  std::string read_line();
  /// Throws std::runtime_error with `what`, this rank's log, and where() of all ranks of this
  /// process.
  [[noreturn]] void give_up(const std::string& what) const;

  pid_t pid_ = -1;
  int in_ = -1, out_ = -1, log_ = -1;
  int step_ = -1;  ///< a file in which the rank stores the name of its last step
  int deadline_ms_;
  std::string buffer_, last_order_;
  bool waits_ = false;  ///< for the reply to the last command
};

/// Ranks that work together. A command is sent to all ranks before a reply is waited for, because
/// collectives need all ranks.
class Job {
 public:
  Job(const Setup& setup, int ranks, const std::map<std::string, std::string>& environment = {});

  RankProcess& operator[](int rank) { return *ranks_[static_cast<size_t>(rank)]; }
  int size() const { return static_cast<int>(ranks_.size()); }

  /// Rank r uses device devices[r], or devices[r] % shared_gpus if GPUs are shared.
  void use_devices(const std::vector<int>& devices);
  /// Creates a communicator of these members (all if empty), in this order.
  void make(const std::string& name, std::vector<int> members = {});
  std::vector<std::string> all(const std::string& order);
  std::vector<std::string> some(const std::vector<int>& members, const std::string& order);

 private:
  std::vector<std::unique_ptr<RankProcess>> ranks_;
  int shared_gpus_;
};

}  // namespace jobs
