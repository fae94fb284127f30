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

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

bool is_same_file(const std::string& entry, const std::string& library) {
  // A name without '/' is looked for by the loader, not here.
  if (entry.find('/') == entry.npos) return false;
  std::error_code ignored;
  return fs::equivalent(entry, library, ignored);
}

}  // namespace

std::vector<std::string> find_libraries() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error)
    throw Failure(kRefused, fmt::format("readlink(/proc/self/exe) failed: {}", error.message()));
  const fs::path here = program.parent_path();
  for (const char* folder : {AMEM_LIBRARY_FOLDER, "../lib"}) {
    const fs::path shim = (here / folder).lexically_normal() / "libnccl.so.2";
    const fs::path engine = shim.parent_path() / "libamem_nccl.so";
    // Below /usr the libnccl.so.2 of this folder may be NCCL's own.
    if (!is_there(shim) || !is_there(engine)) continue;
    if (shim.native().find_first_of(kSeparators) != std::string::npos)
      throw Failure(kRefused,
                    fmt::format("{} cannot be preloaded, because LD_PRELOAD has no way to write a "
                                "space or a colon: install amem in a folder without them",
                                shim.native()));
    return {shim, engine};
  }
  throw Failure(kRefused,
                fmt::format("amem's libnccl.so.2 is not in {}: install the command and the "
                            "libraries together",
                            (here / "../lib").lexically_normal().native()));
}

std::string compose_preload(const std::string& before, const std::vector<std::string>& libraries) {
  std::vector<std::string> entries;
  for (size_t at = 0; at < before.size();) {
    const size_t end = std::min(before.find_first_of(kSeparators, at), before.size());
    if (end > at) entries.push_back(before.substr(at, end - at));
    at = end + 1;
  }
  std::string composed = entries.empty() ? "" : before;
  for (const std::string& library : libraries) {
    const auto is_named = [&](const std::string& entry) { return is_same_file(entry, library); };
    if (std::any_of(entries.begin(), entries.end(), is_named)) continue;
    composed += (composed.empty() ? "" : ":") + library;
  }
  return composed;
}

}  // namespace amem
