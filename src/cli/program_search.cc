// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "cli/program_search.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

namespace amem {
namespace {

bool is_program(const std::string& file) {
  struct stat info {};
  return stat(file.c_str(), &info) == 0 && S_ISREG(info.st_mode) && access(file.c_str(), X_OK) == 0;
}

}  // namespace

std::string find_program(const std::string& name, const std::string& path) {
  if (name.empty()) return "";
  if (name.find('/') != name.npos) return access(name.c_str(), F_OK) == 0 ? name : "";
  std::string_view rest = path;
  while (true) {
    const size_t end = std::min(rest.find(':'), rest.size());
    // An empty entry of PATH means the current directory (environ(7)).
    const std::string directory = end == 0 ? "." : std::string(rest.substr(0, end));
    if (const std::string file = directory + "/" + name; is_program(file)) return file;
    if (end == rest.size()) return "";
    rest.remove_prefix(end + 1);
  }
}

}  // namespace amem
