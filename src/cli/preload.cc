// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "cli/preload.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cli/failure.h"

namespace amem {
namespace {

namespace fs = std::filesystem;

// ld.so(8): "The items of the list can be separated by spaces or colons, and there is no support
// for escaping either separator."
constexpr char kSeparators[] = ": ";

bool is_same_file(const std::string& entry, const std::string& library) {
  // The loader searches for a name without '/'.
  if (entry.find('/') == entry.npos) return false;
  std::error_code ignored;
  return fs::equivalent(entry, library, ignored);
}

}  // namespace

std::string program_folder() { return fs::read_symlink("/proc/self/exe").parent_path(); }

std::vector<std::string> preloads_in(const std::string& variable) {
  std::vector<std::string> out;
  for (size_t at = 0; at < variable.size();) {
    const size_t end = std::min(variable.find_first_of(kSeparators, at), variable.size());
    if (end > at) out.push_back(variable.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

std::string find_library() {
  std::error_code error;
  const fs::path here = program_folder();
  for (const char* folder : {AMEM_LIBRARY_FOLDER, "../lib"}) {
    const std::string library = (here / folder / "libamem_nccl.so").lexically_normal();
    if (!fs::exists(library, error)) continue;
    if (library.find_first_of(kSeparators) != library.npos)
      throw Failure(kRefused,
                    fmt::format("{} cannot be preloaded, because LD_PRELOAD cannot contain a "
                                "space or a colon: install amem in a folder without them",
                                library));
    return library;
  }
  throw Failure(kRefused, fmt::format("libamem_nccl.so is not in {}: install the command and the "
                                      "libraries together",
                                      (here / "../lib").lexically_normal().native()));
}

std::string compose_preload(const std::string& before, const std::string& library) {
  const std::vector<std::string> entries = preloads_in(before);
  for (const std::string& entry : entries)
    if (is_same_file(entry, library)) return before;
  return entries.empty() ? library : before + ":" + library;
}

}  // namespace amem
