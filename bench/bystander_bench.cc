// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "bench/bystander_bench.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdio>

#include "bench/stretch.h"
#include "bench/summary.h"

namespace bench {

namespace {

constexpr const char* kPhases[] = {"before", "pause", "away", "resume"};
constexpr double kMomentS = 0.2;

using CycleTimes = std::array<Stretch, std::size(kPhases)>;

/// One phase in every cycle.
struct PhaseGaps {
  std::vector<double> seconds, longest_ms, round_ms;
  long rounds = 0;  ///< of the bystander with the fewest
};

class BystanderBench {
 public:
  explicit BystanderBench(Workload& workload) : workload_(workload), job_(workload.job()) {
    for (int rank = 0; rank < job_.size(); ++rank)
      (rank < job_.size() / 2 ? pausing_ : bystanders_).push_back(rank);
    job_.make("others", bystanders_);
    job_.some(bystanders_, "connect others" + workload.size().counts);
  }

  void run(int cycles) {
    job_.some(bystanders_, "gaps_begin others");
    for (int i = 0; i < cycles; ++i) {
      CycleTimes& times = cycles_.emplace_back();
      times[0] = moment();
      times[1] = timed([this] { job_.some(pausing_, "pause"); });
      times[2] = moment();
      times[3] = timed([this] { job_.some(pausing_, "resume"); });
    }
    job_.some(bystanders_, "gaps_end");
  }

  nlohmann::json record() {
    nlohmann::json phases;
    double round_ms = 0;
    for (size_t i = 0; i < std::size(kPhases); ++i) {
      const PhaseGaps gaps = read_gaps(i);
      if (i == 0) round_ms = median(gaps.round_ms);
      std::vector<double> added_ms;
      for (double longest_ms : gaps.longest_ms) added_ms.push_back(longest_ms - round_ms);
      phases[kPhases[i]] = {{"seconds", summary(gaps.seconds)},
                            {"rounds", gaps.rounds},
                            {"round_ms", summary(gaps.round_ms)},
                            {"longest_gap_ms", summary(gaps.longest_ms)},
                            {"added_ms", summary(added_ms)}};
    }
    return {
        {"figures", "bystander"},
        {"contender", workload_.contender()},
        {"communicators", workload_.size().communicators},
        {"counts", workload_.size().counts},
        {"pausing", pausing_.size()},
        {"bystanders", bystanders_.size()},
        {"work", bystanders_.size() > 1 ? fmt::format("all_reduce over {} GPUs", bystanders_.size())
                                        : "all_reduce of one rank, which stays on its GPU"},
        {"cycles", cycles_.size()},
        {"round_ms", round_ms},
        {"phases", phases},
        {"verified", check()}};
  }

 private:
  /// Some time in which every bystander's rounds go on.
  Stretch moment() {
    return waited(kMomentS, "the rounds of the bystanders", [this] {
      long least = LONG_MAX;
      for (const std::string& answer : job_.some(bystanders_, "gap_rounds"))
        least = std::min(least, std::stol(answer));
      return least;
    });
  }

  PhaseGaps read_gaps(size_t phase) {
    PhaseGaps gaps;
    for (const CycleTimes& times : cycles_) {
      const Stretch& stretch = times[phase];
      long fewest = LONG_MAX;
      double longest_ms = 0, round_ms = 0;
      for (const std::string& answer : job_.some(
               bystanders_, fmt::format("gaps_between {} {}", stretch.begin_ns, stretch.end_ns))) {
        long rounds = 0, median_ns = 0, longest_ns = 0;
        sscanf(answer.c_str(), "%ld %ld %ld", &rounds, &median_ns, &longest_ns);
        fewest = std::min(fewest, rounds);
        round_ms = std::max(round_ms, static_cast<double>(median_ns) / 1e6);
        longest_ms = std::max(longest_ms, static_cast<double>(longest_ns) / 1e6);
      }
      gaps.rounds += fewest;
      gaps.seconds.push_back(stretch.seconds());
      gaps.round_ms.push_back(round_ms);
      gaps.longest_ms.push_back(longest_ms);
    }
    return gaps;
  }

  bool check() {
    if (!workload_.check()) return false;
    try {
      job_.some(bystanders_, "check others" + workload_.size().counts);
      return true;
    } catch (const std::exception& error) {
      fmt::print(stderr, "  a check failed: {}\n", error.what());
      return false;
    }
  }

  Workload& workload_;
  jobs::Job& job_;
  std::vector<int> pausing_, bystanders_;
  std::vector<CycleTimes> cycles_;
};

}  // namespace

nlohmann::json measure_bystander(Workload& workload, int cycles) {
  BystanderBench bench(workload);
  bench.run(cycles);
  return bench.record();
}

}  // namespace bench
