// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <initializer_list>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/process/simulated_job.h"

namespace amem {

/// A step point, where a process is killed or stopped.
struct Point {
  const char* name;
  bool is_own;  ///< of the rank that pauses or resumes, or of its peer
  std::string_view role;

  /// What is under way when the point is reached.
  bool in_pause() const {
    const std::string_view text = name;
    return text.starts_with("pause") || text.starts_with("revoke");
  }
};

/// In place of its bytes, in lists of tests.
inline void PrintTo(const Point& point, std::ostream* out) { *out << point.name; }

inline std::string name_of_point(const testing::TestParamInfo<Point>& info) {
  return info.param.name;
}

constexpr bool is_of_pauser(std::string_view role) { return role == "pauser" || role == "resumer"; }

/// Those of these roles.
inline std::vector<Point> points_of(std::initializer_list<std::string_view> roles) {
  std::vector<Point> points{
#define AMEM_STEP_POINT(name, role, moment) {#name, is_of_pauser(#role), #role},
#include "tests/faults/step_points.def"
#undef AMEM_STEP_POINT
  };
  std::erase_if(points, [&](const Point& point) {
    return std::find(roles.begin(), roles.end(), point.role) == roles.end();
  });
  return points;
}

/// Those that every pause and resume with a peer reaches.
inline const std::vector<Point> kPoints = points_of({"pauser", "resumer", "importer", "owner"});

/// Each stop costs the deadline of a pause: the short sweep takes every third.
inline std::vector<Point> points_to_stop_at() {
  std::vector<Point> points;
  for (size_t i = 0; i < kPoints.size(); ++i)
    if (is_long() || i % 3 == 0) points.push_back(kPoints[i]);
  return points;
}

/// Each stop of a peer costs the deadline of a pause: the short sweep takes every second.
inline std::vector<Point> points_of_the_peer() {
  std::vector<Point> points;
  int count = 0;
  for (const Point& point : kPoints)
    if (!point.is_own && (count++ % 2 == 0 || is_long())) points.push_back(point);
  return points;
}

/// The state of a process, as proc(5) has it: 'T' when stopped, 'Z' when ended.
inline char process_state(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(stat, text);
  const size_t name_end = text.rfind(')');
  return name_end == text.npos ? 'Z' : text[name_end + 2];
}

/// True when all threads of a child process have ended. Its first thread may be a zombie before.
inline bool has_ended(pid_t child) {
  siginfo_t info{};
  return waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
         info.si_pid == child;
}

/// Of a child process; 'Z': it has ended.
inline bool wait_for_state(pid_t pid, char wanted) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20) * kSlowdown;
  while (wanted == 'Z' ? !has_ended(pid) : process_state(pid) != wanted) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    constexpr std::chrono::milliseconds kPause{2};
    std::this_thread::sleep_for(kPause);  // allow: between two looks, under a deadline
  }
  return true;
}

}  // namespace amem
