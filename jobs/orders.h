// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <sstream>
#include <string>

namespace jobs {

/// The arguments of a command.
using Words = std::istringstream;
/// Commands by name. The result of a command is its reply without the "ok"; std::runtime_error is
/// its "error".
using Orders = std::map<std::string, std::function<std::string(Words&)>>;

inline double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace jobs
