// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace bench {

/// The figures of one run: a JSON line each as soon as it is there, and tables at the end.
class Report {
 public:
  /// `facts` go into every line. Throws std::runtime_error when the file cannot be written.
  Report(nlohmann::json facts, const std::string& json_path);

  /// A record names what it is in "figures": pause, setup, rival, bystander, timeline, bandwidth or
  /// calls.
  void add(nlohmann::json record);
  const nlohmann::json& facts() const { return facts_; }
  const std::vector<nlohmann::json>& records() const { return records_; }
  /// False when a result was wrong after some resume.
  bool verified() const;

 private:
  nlohmann::json facts_;
  std::vector<nlohmann::json> records_;
  std::ofstream file_;
};

/// The tables for people, on standard output.
void print_tables(const Report& report);

}  // namespace bench
