// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>

#include "peers/instances.h"

namespace {

constexpr std::string_view kPrefix = "@amem-0-";
constexpr size_t kDigits = 32;

bool is_digit(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

/// What there is to find in a table, found by looking for the names instead of reading lines: those
/// that stand alone at the end of a line.
std::set<std::string> names_in(std::string_view table) {
  std::set<std::string> out;
  for (size_t at = table.find(kPrefix); at != table.npos; at = table.find(kPrefix, at + 1)) {
    const std::string_view digits = table.substr(at + kPrefix.size(), kDigits);
    const size_t end = at + kPrefix.size() + digits.size();
    const bool begins = at == 0 || table[at - 1] == ' ' || table[at - 1] == '\n';
    const bool ends = end == table.size() || table[end] == '\n';
    if (begins && ends && digits.size() == kDigits && std::ranges::all_of(digits, is_digit))
      out.emplace(digits);
  }
  return out;
}

}  // namespace

/// instances_in() finds the names of this shape, and takes nothing else for one.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size_bytes) {
  const std::string_view table(reinterpret_cast<const char*>(data), size_bytes);
  std::set<std::string> found;
  for (const amem::InstanceId& instance : amem::instances_in(table, 0))
    found.insert(instance.hex());
  if (found != names_in(table)) abort();
  return 0;
}
