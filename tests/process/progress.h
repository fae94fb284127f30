// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>

#include "jobs/job.h"
#include "tests/slowdown.h"

namespace amem {

/// Returns when `condition` holds; throws when it has not in 30 s (times kSlowdown).
inline void wait_for(const std::string& what, const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30) * kSlowdown;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline)
      throw std::runtime_error(what + ": waited in vain");
    constexpr std::chrono::milliseconds kPause{2};
    std::this_thread::sleep_for(kPause);  // allow: between two looks, under a deadline
  }
}

inline long loops_done(jobs::RankProcess& rank) { return std::stol(rank.ask("loops")); }

/// Returns when the rank's background loop has done `more` rounds from now on.
inline void wait_for_loops(jobs::RankProcess& rank, long more) {
  const long wanted = loops_done(rank) + more;
  wait_for("a background loop goes on", [&] { return loops_done(rank) >= wanted; });
}

}  // namespace amem
