// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace amem {

/// Names and values of environment variables, in the order in which they were set. Not thread-safe.
class Variables {
 public:
  /// Those of this process.
  static Variables of_this_process();

  /// A name that is there already keeps its place.
  void set(std::string_view name, std::string_view value);
  /// Sets everything that `other` holds.
  void set_all(const Variables& other);
  std::optional<std::string> get(std::string_view name) const;
  /// The value, or "" for what is absent: where both mean the same.
  std::string text(std::string_view name) const { return get(name).value_or(""); }

  const std::vector<std::pair<std::string, std::string>>& rows() const { return rows_; }
  /// NAME=value, as execve(2) takes them.
  std::vector<std::string> block() const;

 private:
  std::vector<std::pair<std::string, std::string>> rows_;
};

/// Pointers to the strings and a null at the end; valid as long as `strings` is unchanged.
std::vector<char*> pointers_to(std::vector<std::string>& strings);

}  // namespace amem
