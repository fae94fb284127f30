// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

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

}  // namespace amem
