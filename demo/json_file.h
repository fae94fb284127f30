// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <fmt/core.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

namespace demo {

/// Writes the result of a demo and says so. Throws std::runtime_error if the file cannot be
/// written.
inline void write_json(const std::string& path, const nlohmann::json& result) {
  std::ofstream file(path);
  file << result.dump(2) << "\n" << std::flush;
  if (!file) throw std::runtime_error(fmt::format("cannot write {}: {}", path, strerror(errno)));
  fmt::print("written: {}\n", path);
}

}  // namespace demo
