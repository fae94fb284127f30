// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace amem {

/// A loader's cache as ldconfig(8) writes it, with these {SONAME, path} entries.
inline std::vector<char> cache_bytes(
    const std::vector<std::pair<std::string, std::string>>& libraries) {
  std::string strings;
  std::vector<char> out(48 + 24 * libraries.size());
  const auto put = [&out](size_t at, auto value) { memcpy(out.data() + at, &value, sizeof value); };
  memcpy(out.data(), "glibc-ld.so.cache1.1", 20);
  put(20, static_cast<uint32_t>(libraries.size()));
  for (size_t i = 0; i < libraries.size(); ++i) {
    const size_t entry = 48 + 24 * i;
    put(entry, 0x0303);
    put(entry + 4, static_cast<uint32_t>(out.size() + strings.size()));
    strings += libraries[i].first + '\0';
    put(entry + 8, static_cast<uint32_t>(out.size() + strings.size()));
    strings += libraries[i].second + '\0';
  }
  put(24, static_cast<uint32_t>(strings.size()));
  out.insert(out.end(), strings.begin(), strings.end());
  return out;
}

}  // namespace amem
