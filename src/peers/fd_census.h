// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <dirent.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace amem {

/// The fd numbers that this process has open, for tests that look for leaks; ascending.
inline std::vector<int> open_fds() {
  std::vector<int> fds;
  DIR* folder = opendir("/proc/self/fd");
  if (folder == nullptr) return fds;
  while (const dirent* entry = readdir(folder))
    if (entry->d_name[0] != '.') fds.push_back(atoi(entry->d_name));
  std::erase(fds, dirfd(folder));
  closedir(folder);
  std::sort(fds.begin(), fds.end());
  return fds;
}

}  // namespace amem
