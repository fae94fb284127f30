// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "bench/bandwidth_bench.h"

#include <fmt/core.h>

#include <cmath>
#include <memory>

#include "bench/summary.h"
#include "bench/workload.h"

namespace bench {

namespace {

constexpr int kWarmUps = 3;
constexpr int kEmptyCalls = 20000;

/// One communicator of one contender, ready to be timed.
class Runner {
 public:
  Runner(const Contender& contender, int gpus)
      : workload_(std::make_unique<Workload>(contender, WorkloadSize{gpus, 1, " 17"})) {
    workload_->set_up();
  }

  const std::string& name() const { return workload_->contender(); }

  /// Seconds of one all_reduce, of the slowest rank, as the mean of `repeats`.
  double seconds(size_t size_bytes, int repeats) {
    const std::string order = fmt::format("time {} {} {} {}", Workload::name(0),
                                          size_bytes / sizeof(float), repeats, kWarmUps);
    return slowest(workload_->job().all(order)) / repeats;
  }

 private:
  std::unique_ptr<Workload> workload_;
};

std::vector<size_t> sizes_up_to(size_t largest_bytes) {
  std::vector<size_t> sizes;
  for (size_t size = 8; size < largest_bytes; size *= 4) sizes.push_back(size);
  sizes.push_back(largest_bytes);
  return sizes;
}

/// Seconds of one all_reduce in every round, for each runner.
std::vector<std::vector<double>> in_turns(std::vector<Runner>& runners, size_t size_bytes,
                                          int repeats, int rounds) {
  std::vector<std::vector<double>> seconds(runners.size());
  for (int round = 0; round < rounds; ++round)
    for (size_t turn = 0; turn < runners.size(); ++turn) {
      const size_t i = round % 2 == 0 ? turn : runners.size() - 1 - turn;
      seconds[i].push_back(runners[i].seconds(size_bytes, repeats));
    }
  return seconds;
}

/// Nanoseconds of a call of ncclAllReduce() for no floats: {"<contender>": {...}}. It launches
/// nothing, so what differs is what the calls pass through.
nlohmann::json measure_empty_calls(std::vector<Runner>& runners, int rounds) {
  const std::vector<std::vector<double>> seconds = in_turns(runners, 0, kEmptyCalls, rounds);
  nlohmann::json row;
  for (size_t i = 0; i < runners.size(); ++i) {
    std::vector<double> nanoseconds;
    for (const double of_round : seconds[i]) nanoseconds.push_back(of_round * 1e9);
    row[runners[i].name()] = summary(nanoseconds);
  }
  return row;
}

/// One size with every contender: {"bytes", "<contender>": {...}}.
nlohmann::json measure_size(std::vector<Runner>& runners, size_t size_bytes,
                            const BandwidthOptions& options) {
  double fastest = 1e9;
  for (Runner& runner : runners) fastest = std::min(fastest, runner.seconds(size_bytes, 5));
  const double wanted = options.block_ms / 1e3 / std::max(fastest, 1e-7);
  const int repeats = static_cast<int>(std::clamp(wanted, 5.0, 5000.0));

  const std::vector<std::vector<double>> seconds =
      in_turns(runners, size_bytes, repeats, options.rounds);
  nlohmann::json row = {{"bytes", size_bytes}, {"repeats", repeats}};
  for (size_t i = 0; i < runners.size(); ++i) {
    std::vector<double> of_plain;
    for (size_t round = 0; round < seconds[i].size(); ++round)
      of_plain.push_back(seconds[0][round] / seconds[i][round]);
    row[runners[i].name()] = {
        {"seconds", summary(seconds[i])},
        {"gb_per_s", static_cast<double>(size_bytes) / 1e9 / median(seconds[i])},
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

nlohmann::json measure_bandwidth(const Contenders& contenders, int gpus,
                                 const BandwidthOptions& options) {
  std::vector<Runner> runners;
  for (const Contender* each : {&contenders.plain, &contenders.forwarding, &contenders.amem})
    runners.emplace_back(*each, gpus);
  // The largest size first: it connects every channel and takes buffers that serve all sizes.
  for (Runner& runner : runners) runner.seconds(options.largest_bytes, kWarmUps);

  nlohmann::json sizes = nlohmann::json::array();
  for (size_t size_bytes : sizes_up_to(options.largest_bytes)) {
    fmt::print(stderr, "  {} B\n", size_bytes);
    sizes.push_back(measure_size(runners, size_bytes, options));
  }
  return {{"figures", "bandwidth"},
          {"collective", "all_reduce"},
          {"rounds", options.rounds},
          {"sizes", sizes},
          {"empty_call_ns", measure_empty_calls(runners, options.rounds)},
          {"amem_of_plain", over_sizes(sizes, contenders.amem.name)},
          {"forwarding_of_plain", over_sizes(sizes, contenders.forwarding.name)}};
}

}  // namespace bench
