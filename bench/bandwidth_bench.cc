// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "bench/bandwidth_bench.h"

#include <fmt/core.h>

#include <cmath>

#include "bench/summary.h"

namespace bench {

namespace {

constexpr int kWarmUps = 3;

/// What is timed.
struct Size {
  std::string collective;
  size_t bytes = 0;  ///< of a call's count
};

using Runners = std::vector<std::unique_ptr<Workload>>;

/// Seconds of one collective, of the slowest rank, as the mean of `repeats`.
double seconds_of(Workload& runner, const Size& size, int repeats) {
  const std::string order = fmt::format("time {} {} {} {} {}", Workload::name(0), size.collective,
                                        size.bytes / sizeof(float), repeats, kWarmUps);
  return slowest(runner.job().all(order)) / repeats;
}

std::vector<size_t> sizes_up_to(size_t largest_bytes) {
  std::vector<size_t> sizes;
  for (size_t size = 8; size < largest_bytes; size *= 4) sizes.push_back(size);
  sizes.push_back(largest_bytes);
  return sizes;
}

/// Seconds of one collective in every round, for each runner.
std::vector<std::vector<double>> in_turns(const Runners& runners, const Size& size, int repeats,
                                          int rounds) {
  std::vector<std::vector<double>> seconds(runners.size());
  for (int round = 0; round < rounds; ++round)
    for (size_t turn = 0; turn < runners.size(); ++turn) {
      const size_t i = round % 2 == 0 ? turn : runners.size() - 1 - turn;
      seconds[i].push_back(seconds_of(*runners[i], size, repeats));
    }
  return seconds;
}

/// One size with every contender: {"bytes", "<contender>": {...}}.
nlohmann::json measure_size(const Runners& runners, const Size& size,
                            const BandwidthOptions& options) {
  double fastest = 1e9;
  for (const auto& runner : runners) fastest = std::min(fastest, seconds_of(*runner, size, 5));
  const double wanted = options.block_ms / 1e3 / std::max(fastest, 1e-7);
  const int repeats = static_cast<int>(std::clamp(wanted, 5.0, 5000.0));

  const std::vector<std::vector<double>> seconds = in_turns(runners, size, repeats, options.rounds);
  nlohmann::json row = {{"bytes", size.bytes}, {"repeats", repeats}};
  for (size_t i = 0; i < runners.size(); ++i) {
    std::vector<double> of_plain;
    for (size_t round = 0; round < seconds[i].size(); ++round)
      of_plain.push_back(seconds[0][round] / seconds[i][round]);
    row[runners[i]->contender()] = {
        {"seconds", summary(seconds[i])},
        {"gb_per_s", static_cast<double>(size.bytes) / 1e9 / median(seconds[i])},
        {"of_plain", summary(of_plain)}};
  }
  return row;
}

/// Geometric mean and minimum of a contender's ratios over all sizes.
nlohmann::json over_sizes(const nlohmann::json& sizes, const std::string& contender) {
  double logarithms = 0, least = 1e9;
  for (const nlohmann::json& row : sizes) {
    const double ratio = row[contender]["of_plain"]["median"];
    logarithms += std::log(ratio);
    least = std::min(least, ratio);
  }
  return {{"geometric_mean", std::exp(logarithms / static_cast<double>(sizes.size()))},
          {"min", least}};
}

}  // namespace

BandwidthBench::BandwidthBench(const Contenders& contenders, int gpus) {
  for (const Contender* each : {&contenders.plain, &contenders.forwarding, &contenders.amem}) {
    runners_.push_back(std::make_unique<Workload>(*each, WorkloadSize{gpus, 1, " 17"}));
    runners_.back()->set_up();
  }
}

nlohmann::json BandwidthBench::measure(const std::string& collective,
                                       const BandwidthOptions& options) {
  // The largest size first: it connects every channel and takes buffers that serve all sizes.
  for (const auto& runner : runners_)
    seconds_of(*runner, {collective, options.largest_bytes}, kWarmUps);
  nlohmann::json sizes = nlohmann::json::array();
  for (size_t size_bytes : sizes_up_to(options.largest_bytes)) {
    fmt::print(stderr, "  {}, {} B\n", collective, size_bytes);
    sizes.push_back(measure_size(runners_, {collective, size_bytes}, options));
  }
  nlohmann::json record = {{"figures", "bandwidth"},
                           {"collective", collective},
                           {"rounds", options.rounds},
                           {"sizes", sizes}};
  for (const char* contender : {"amem", "forwarding"})
    record[fmt::format("{}_of_plain", contender)] = over_sizes(sizes, contender);
  return record;
}

}  // namespace bench
