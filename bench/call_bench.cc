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

/// {"median", "lower_quartile", "upper_quartile"}: there are hundreds of values.
nlohmann::json spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {{"median", median(values)},
          {"lower_quartile", values[values.size() / 4]},
          {"upper_quartile", values[values.size() * 3 / 4]}};
}

/// Of the rounds of all ranks, nanoseconds.
nlohmann::json measure(Workload& workload, const std::string& nccl_file, bool grouped,
                       const CallOptions& options) {
  std::vector<double> all_direct, all_amem, all_added;
  for (const std::string& answer :
       workload.job().all(fmt::format("time_calls {} {} {} {:d} {}", Workload::name(0),
                                      options.repeats, options.rounds, grouped, nccl_file))) {
    std::istringstream words(answer);
    for (double direct = 0, amem = 0; words >> direct >> amem;) {
      all_direct.push_back(direct);
      all_amem.push_back(amem);
      all_added.push_back(amem - direct);
    }
  }
  return {{"direct_ns", spread(all_direct)},
          {"amem_ns", spread(all_amem)},
          {"added_ns", spread(all_added)}};
}

}  // namespace

nlohmann::json measure_calls(const Contenders& contenders, int gpus, const CallOptions& options) {
  Workload workload(contenders.amem, {gpus, 1, " 17"});
  workload.set_up();
  return {{"figures", "calls"},
          {"rounds", options.rounds},
          {"alone", measure(workload, contenders.nccl_file, false, options)},
          {"grouped", measure(workload, contenders.nccl_file, true, options)}};
}

}  // namespace bench
