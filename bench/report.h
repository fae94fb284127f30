// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace bench {

/// The figures of one run. Each is written as a JSON line as soon as it is available. tables.py
/// prints them as tables.
class Report {
 public:
  /// Adds `facts` to every line. Throws std::runtime_error if the file cannot be written.
  Report(nlohmann::json facts, const std::string& json_path);

  /// A record has its type in "figures": pause, setup, rival, bystander, timeline, bandwidth or
  /// calls.
  void add(const nlohmann::json& record);
  /// False if a result was wrong after a resume.
  bool verified() const { return verified_; }

 private:
  nlohmann::json facts_;
  bool verified_ = true;
  std::ofstream file_;
};

}  // namespace bench
