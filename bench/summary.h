// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

namespace bench {

/// The middle value, or the mean of the two middle values. The list must not be empty.
inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// {"median", "min", "max", "values"}; null without values.
inline nlohmann::json summary(const std::vector<double>& values) {
  if (values.empty()) return nullptr;
  return {{"median", median(values)},
          {"min", *std::min_element(values.begin(), values.end())},
          {"max", *std::max_element(values.begin(), values.end())},
          {"values", values}};
}

/// The pauses and resumes of one workload, in seconds of the slowest rank. The first cycle is
/// separate, because it prepares resources for the later ones.
struct Cycles {
  std::vector<double> pause_s, resume_s;

  nlohmann::json record() const {
    return {{"first_pause_s", pause_s.front()},
            {"first_resume_s", resume_s.front()},
            {"steady_pause_s", summary({pause_s.begin() + 1, pause_s.end()})},
            {"steady_resume_s", summary({resume_s.begin() + 1, resume_s.end()})}};
  }
};

}  // namespace bench
