// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <sstream>
#include <string>

namespace jobs {

/// What follows an order's name on its line.
using Words = std::istringstream;
/// By name; an order's result is its answer without the "ok", a std::runtime_error its "error".
using Orders = std::map<std::string, std::function<std::string(Words&)>>;

inline double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace jobs
