// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "bench/call_bench.h"

#include <fmt/core.h>

#include <algorithm>
#include <sstream>

#include "bench/summary.h"
#include "bench/workload.h"

namespace bench {

namespace {

/// Nanoseconds of a collective, of the slowest rank in each round.
struct Rounds {
  std::vector<double> direct, amem;
};

/// What is timed: a collective of so many bytes, and how.
struct Case {
  std::string collective;
  size_t bytes = 0;  ///< of a call's count
  int repeats = 0, rounds = 0;
  bool grouped = false;
};

Rounds measure(Workload& workload, const std::string& nccl_file, const Case& what) {
  const std::vector<std::string> answers = workload.job().all(
      fmt::format("time_calls {} {} {} {} {} {:d} {}", Workload::name(0), what.collective,
                  what.bytes / sizeof(float), what.repeats, what.rounds, what.grouped, nccl_file));
  const auto size = static_cast<size_t>(what.rounds);
  Rounds slowest{std::vector<double>(size), std::vector<double>(size)};
  for (const std::string& answer : answers) {
    std::istringstream words(answer);
    double direct = 0, amem = 0;
    for (size_t round = 0; words >> direct >> amem; ++round) {
      slowest.direct.at(round) = std::max(slowest.direct[round], direct);
      slowest.amem.at(round) = std::max(slowest.amem[round], amem);
    }
  }
  return slowest;
}

/// How many of this size are queued: fewer than `most` where their bytes take the time.
int repeats_of(size_t bytes, int most) {
  constexpr size_t kQueuedBytes = size_t{100} << 20;
  return static_cast<int>(std::clamp(kQueuedBytes / bytes, size_t{1}, static_cast<size_t>(most)));
}

/// {"median", "lower_quartile", "upper_quartile"}: there are hundreds of values.
nlohmann::json spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {{"median", median(values)},
          {"lower_quartile", values[values.size() / 4]},
          {"upper_quartile", values[values.size() * 3 / 4]}};
}

nlohmann::json record_of(const Rounds& rounds) {
  std::vector<double> shares, added_ns;
  for (size_t i = 0; i < rounds.direct.size(); ++i) {
    shares.push_back(rounds.direct[i] / rounds.amem[i]);
    added_ns.push_back(rounds.amem[i] - rounds.direct[i]);
  }
  return {{"direct_ns", spread(rounds.direct)},
          {"amem_ns", spread(rounds.amem)},
          {"added_ns", spread(added_ns)},
          {"of_direct", spread(shares)}};
}

}  // namespace

nlohmann::json measure_calls(const Contenders& contenders, int gpus, const std::string& collective,
                             const CallOptions& options) {
  constexpr int kWaitedRoundsForEach = 4;  // one call is a short measurement
  Workload workload(contenders.amem, {gpus, 1, " 17"});
  workload.set_up();
  const auto at = [&](size_t bytes, int repeats, int rounds, bool grouped = false) {
    return record_of(
        measure(workload, contenders.nccl_file, {collective, bytes, repeats, rounds, grouped}));
  };
  nlohmann::json record = {
      {"figures", "calls"}, {"collective", collective}, {"rounds", options.rounds}};
  if (collective == kEmptyCollective) record["empty"] = at(0, options.repeats * 10, options.rounds);
  nlohmann::json sizes = nlohmann::json::array();
  for (size_t bytes = 8; bytes <= options.largest_bytes; bytes *= 4)
    sizes.push_back({{"bytes", bytes}, {"repeats", repeats_of(bytes, options.repeats)}});
  for (nlohmann::json& row : sizes) {
    const size_t bytes = row["bytes"];
    fmt::print(stderr, "  {}, {} B\n", collective, bytes);
    row["grouped"] = at(bytes, row["repeats"], options.rounds, true);
    row["queued"] = at(bytes, row["repeats"], options.rounds);
    row["waited"] = at(bytes, 1, options.rounds * kWaitedRoundsForEach);
  }
  record["sizes"] = sizes;
  return record;
}

}  // namespace bench
