// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "bench/options.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace bench {

namespace {

std::vector<std::string> all_collectives() {
  return {
#define COLLECTIVE(name) #name,
#include "jobs/collectives.def"
#undef COLLECTIVE
  };
}

}  // namespace

void Options::add_to(CLI::App& app) {
  app.add_option("--what", what, fmt::format("parts: {}; all by default", fmt::join(what, ", ")))
      ->delimiter(',')
      ->check(CLI::IsMember(what));
  app.add_option("--gpus", gpus, "GPUs, one process each; all, at most 4, simulated 2")
      ->check(CLI::Range(2, 16));
  app.add_option("--communicators", communicators,
                 "workloads, each of so many communicators, the timeline's of the most; 1,4,9,20, "
                 "simulated 1,4")
      ->delimiter(',')
      ->check(CLI::Range(1, 256));
  app.add_option("--counts", counts,
                 "floats a rank of every collective; 17,16384,4194304, simulated 17,16384,100000")
      ->delimiter(',')
      ->check(CLI::Range(size_t{1}, size_t{1} << 36));
  collectives = all_collectives();
  app.add_option("--collectives", collectives,
                 fmt::format("whose bandwidth: {}; all by default", fmt::join(collectives, ", ")))
      ->delimiter(',')
      ->check(CLI::IsMember(collectives));
  app.add_option("--cycles", cycles, "pauses and resumes; the first stands apart")
      ->capture_default_str()
      ->check(CLI::Range(2, 1000));
  app.add_option("--setups", setups, "how often each workload is set up to be timed")
      ->capture_default_str()
      ->check(CLI::Range(1, 100));
  app.add_option("--rival-cycles", rival_cycles, "--cycles of the rivals, which are slow")
      ->capture_default_str()
      ->check(CLI::Range(2, 100));
  app.add_option("--suspend-up-to", suspend_up_to,
                 "most communicators for NCCL's own suspend, which takes seconds")
      ->capture_default_str();
  app.add_option("--largest", bandwidth.largest_bytes,
                 "largest collective in bytes; 256 MiB, simulated 1 MiB")
      ->check(CLI::Range(size_t{8}, size_t{1} << 34));
  app.add_option("--rounds", bandwidth.rounds,
                 "measurements of each size with each contender; 9, simulated 3")
      ->check(CLI::Range(1, 1000));
  app.add_option("--block-ms", bandwidth.block_ms,
                 "about how long one measurement is; 20, simulated 50");
  app.add_option("--call-rounds", calls.rounds, "pairs of measurements of calls; 401, simulated 5")
      ->check(CLI::Range(1, 100000));
  app.add_option("--away-ms", away_ms,
                 "how long the timeline's ranks stay paused, and twice what they work; 1000, "
                 "simulated 200")
      ->check(CLI::Range(1, 600000));
  app.add_flag("--simulate", simulate, "simulated GPUs although there are real ones");
  app.add_option("--json", json_path, "where the figures go, one JSON object a line")
      ->capture_default_str();
}

void Options::fill_in(const demo::Machine& machine) {
  const bool simulated = machine.gpu == "simulated";
  // Simulated kernels are threads that poll: more ranks than cores would time the scheduler.
  if (gpus == 0) gpus = simulated ? 2 : machine.default_ranks;
  if (communicators.empty())
    communicators = simulated ? std::vector{1, 4} : std::vector{1, 4, 9, 20};
  for (size_t count : counts) counts_text += fmt::format(" {}", count);
  if (counts.empty()) counts_text = machine.counts;
  if (away_ms == 0) away_ms = simulated ? 200 : 1000;
  timeline = {away_ms / 2e3, away_ms / 1e3};
  if (bandwidth.largest_bytes == 0) bandwidth.largest_bytes = size_t{1} << (simulated ? 20 : 28);
  if (bandwidth.rounds == 0) bandwidth.rounds = simulated ? 3 : 9;
  if (bandwidth.block_ms == 0) bandwidth.block_ms = simulated ? 50 : 20;
  calls.repeats = 2000;
  if (calls.rounds == 0) calls.rounds = simulated ? 5 : 401;
}

bool Options::wants(const std::string& part) const {
  return std::find(what.begin(), what.end(), part) != what.end();
}

}  // namespace bench
