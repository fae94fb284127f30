// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "cli/instances.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

#include "cli/failure.h"
#include "peers/socket_address.h"

namespace amem {
namespace {

constexpr char kTable[] = "/proc/net/unix";
constexpr size_t kHexDigits = 32;

std::optional<InstanceId> instance_from(std::string_view hex) {
  InstanceId id;
  for (size_t word = 0; word < id.bits.size(); ++word) {
    const char* const digits = hex.data() + word * kHexDigits / 2;
    const char* const end = digits + kHexDigits / 2;
    const auto read = std::from_chars(digits, end, id.bits[word], 16);
    if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  }
  return id;
}

}  // namespace

std::set<InstanceId> instances_in(std::string_view table) {
  std::string prefix = socket_name(InstanceId{});
  prefix.resize(prefix.size() - kHexDigits);
  prefix.front() = '@';
  std::set<InstanceId> out;
  while (!table.empty()) {
    const size_t end = std::min(table.find('\n'), table.size());
    const std::string_view line = table.substr(0, end);
    const std::string_view name = line.substr(line.rfind(' ') + 1);
    // The connections that a process accepted bear its name too.
    if (name.starts_with(prefix) && name.size() == prefix.size() + kHexDigits)
      if (const auto instance = instance_from(name.substr(prefix.size()))) out.insert(*instance);
    table.remove_prefix(std::min(end + 1, table.size()));
  }
  return out;
}

std::set<InstanceId> instances_of_this_user() {
  std::ifstream stream(kTable);
  if (!stream) throw Failure(kFailed, std::string(kTable) + " cannot be read");
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  return instances_in(text);
}

}  // namespace amem
