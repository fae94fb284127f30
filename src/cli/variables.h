// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace amem {

/// Names and values of environment variables, in order of insertion. Not thread-safe.
class Variables {
 public:
  /// The variables of this process.
  static Variables of_this_process();

  /// An existing name keeps its position.
  void set(std::string_view name, std::string_view value);
  /// Sets all variables of `other`.
  void set_all(const Variables& other);
  std::optional<std::string> get(std::string_view name) const;
  /// The value, or "" if the variable is not set.
  std::string text(std::string_view name) const { return get(name).value_or(""); }

  const std::vector<std::pair<std::string, std::string>>& rows() const { return rows_; }
  /// NAME=value, in the format of execve(2).
  std::vector<std::string> block() const;

 private:
  std::vector<std::pair<std::string, std::string>> rows_;
};

/// Pointers to the strings, terminated by nullptr. Valid as long as `strings` does not change.
std::vector<char*> pointers_to(std::vector<std::string>& strings);

}  // namespace amem
