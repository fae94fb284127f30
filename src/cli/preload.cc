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

std::string program_folder() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error)
    throw Failure(kRefused, fmt::format("readlink(/proc/self/exe) failed: {}", error.message()));
  return program.parent_path();
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
  bool is_empty = true;
  for (size_t at = 0; at < before.size();) {
    const size_t end = std::min(before.find_first_of(kSeparators, at), before.size());
    if (is_same_file(before.substr(at, end - at), library)) return before;
    is_empty = is_empty && end == at;
    at = end + 1;
  }
  return is_empty ? library : before + ":" + library;
}

}  // namespace amem
