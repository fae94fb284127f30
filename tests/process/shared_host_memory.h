// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/slowdown.h"

namespace amem {

/// The bytes of all segments of host memory (contents/host_segment.h) that these processes have
/// open, each counted once.
inline size_t shared_host_bytes(const std::vector<pid_t>& processes) {
  std::map<ino_t, size_t> sizes;
  for (const pid_t pid : processes)
    for (const auto& file :
         std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd")) {
      std::error_code gone;
      const std::string name = std::filesystem::read_symlink(file.path(), gone);
      struct stat found {};
      if (name.starts_with("/memfd:amem-host") && stat(file.path().c_str(), &found) == 0)
        sizes[found.st_ino] = static_cast<size_t>(found.st_blocks) * 512;
    }
  size_t sum = 0;
  for (const auto& [inode, bytes] : sizes) sum += bytes;
  return sum;
}

/// Waits until no other process uses segments of this one. Who reads /proc of a process that has
/// ended may hold its memory, and with it the locks of segments, a moment longer.
inline bool wait_until_unlocked(pid_t pid) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20) * kSlowdown;
  const auto is_locked = [&] {
    std::ifstream locks("/proc/locks");
    const std::string text{std::istreambuf_iterator<char>(locks), {}};
    for (const auto& file :
         std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd")) {
      std::error_code gone;
      const std::string name = std::filesystem::read_symlink(file.path(), gone);
      struct stat found {};
      if (name.starts_with("/memfd:amem-host") && stat(file.path().c_str(), &found) == 0 &&
          text.find(":" + std::to_string(found.st_ino) + " ") != std::string::npos)
        return true;
    }
    return false;
  };
  while (is_locked()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace amem
