// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "cli/variables.h"

#include <unistd.h>

#include <algorithm>

namespace amem {

Variables Variables::of_this_process() {
  Variables out;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    // Keeps the first of two entries with the same name, like getenv(3).
    if (equals != text.npos && !out.get(text.substr(0, equals)))
      out.set(text.substr(0, equals), text.substr(equals + 1));
  }
  return out;
}

void Variables::set(std::string_view name, std::string_view value) {
  const auto row = std::find_if(rows_.begin(), rows_.end(),
                                [name](const auto& candidate) { return candidate.first == name; });
  if (row == rows_.end())
    rows_.emplace_back(name, value);
  else
    row->second = value;
}

void Variables::set_all(const Variables& other) {
  for (const auto& [name, value] : other.rows_) set(name, value);
}

std::optional<std::string> Variables::get(std::string_view name) const {
  for (const auto& [candidate, value] : rows_)
    if (candidate == name) return value;
  return std::nullopt;
}

std::vector<std::string> Variables::block() const {
  std::vector<std::string> out;
  for (const auto& [name, value] : rows_) out.push_back(name + "=" + value);
  return out;
}

std::vector<char*> pointers_to(std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (std::string& text : strings) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

}  // namespace amem
