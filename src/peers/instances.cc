// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "peers/instances.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>
#include <string>

#include "base/unique_fd.h"
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

Result<std::set<InstanceId>> instances_of_this_user() {
  const UniqueFd fd(open(kTable, O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return os_error(errno, "open(%s)", kTable);
  std::string text;
  for (;;) {
    constexpr size_t kPieceBytes = 64 * 1024;
    const size_t before = text.size();
    text.resize(before + kPieceBytes);
    const ssize_t got = read(fd.get(), text.data() + before, kPieceBytes);
    if (got < 0 && errno != EINTR) return os_error(errno, "read(%s)", kTable);
    text.resize(before + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) return instances_in(text);
  }
}

}  // namespace amem
