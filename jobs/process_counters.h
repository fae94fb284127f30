// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <dirent.h>

#include <cstddef>
#include <fstream>
#include <string>

namespace jobs {

/// The number of entries of a directory in /proc: open files, threads.
inline size_t count_entries(const char* directory) {
  size_t count = 0;
  DIR* dir = opendir(directory);
  while (readdir(dir) != nullptr) ++count;
  closedir(dir);
  return count - 3;  // without ".", ".." and the descriptor of this directory
}

/// The number of lines of a file in /proc: mappings.
inline size_t count_lines(const char* file) {
  std::ifstream in(file);
  size_t count = 0;
  for (std::string line; std::getline(in, line);) ++count;
  return count;
}

}  // namespace jobs
