// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstdio>
#include <string>

#include "nccl.h"

namespace jobs {

/// A unique id as 256 hexadecimal digits, for use in a command.
inline std::string hex(const ncclUniqueId& id) {
  std::string text;
  char two[3];
  for (char byte : id.internal) {
    snprintf(two, sizeof two, "%02x", static_cast<unsigned char>(byte));
    text += two;
  }
  return text;
}

inline ncclUniqueId unhex(const std::string& text) {
  ncclUniqueId id{};
  for (size_t i = 0; i < sizeof id.internal; ++i)
    id.internal[i] = static_cast<char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  return id;
}

}  // namespace jobs
