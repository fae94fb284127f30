// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "shim/nccl_search.h"

#include <dlfcn.h>
#include <glob.h>
#include <sys/auxv.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string_view>

#include "base/environment.h"
#include "hook/loaded_image.h"
#include "shim/loader_cache.h"
#include "shim/nccl_file.h"

namespace amem {
namespace {

constexpr char kSoname[] = "libnccl.so.2";
constexpr char kWheelFile[] = "/nvidia/nccl/lib/libnccl.so.2";

void append_matches(const std::string& pattern, std::vector<std::string>& out) {
  glob_t found{};
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0)
    for (size_t i = 0; i < found.gl_pathc; ++i) out.emplace_back(found.gl_pathv[i]);
  globfree(&found);
}

/// A path for glob(3) to take as it is.
std::string literal(std::string_view path) {
  std::string out;
  for (char c : path) {
    if (std::string_view("*?[]\\").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

/// NVIDIA's wheel in every Python below `prefix`. Debian's own Python calls the folder
/// dist-packages.
void append_wheels_below(const std::string& prefix, std::vector<std::string>& out) {
  for (const char* folder : {"/site-packages", "/dist-packages"})
    for (const char* lib : {"/lib", "/lib64"})
      append_matches(literal(prefix) + lib + "/python3*" + folder + kWheelFile, out);
}

/// NVIDIA's wheel beside another package that this process has loaded.
void append_wheel_beside(const std::string& object, std::vector<std::string>& out) {
  for (std::string_view folder : {"/site-packages/", "/dist-packages/"}) {
    const size_t at = object.find(folder);
    if (at != std::string::npos)
      out.push_back(object.substr(0, at + folder.size() - 1) + kWheelFile);
  }
}

/// /opt/venv for /opt/venv/bin/python3.12; empty for what is not a Python.
std::string python_prefix(const std::string& executable) {
  const size_t slash = executable.rfind('/');
  if (slash == std::string::npos || executable.compare(slash, 7, "/python") != 0) return "";
  const std::string folder = executable.substr(0, slash);
  return folder.ends_with("/bin") ? folder.substr(0, folder.size() - 4) : "";
}

std::string resolved(const std::string& path) {
  char* real = path.empty() ? nullptr : realpath(path.c_str(), nullptr);
  const std::string out = real != nullptr ? real : "";
  free(real);
  return out;
}

std::vector<std::string> candidates(const SearchPlaces& places) {
  std::vector<std::string> out;
  for (const std::string& directory : places.library_path) out.push_back(directory + "/" + kSoname);
  for (const std::string& object : places.loaded_objects) append_wheel_beside(object, out);
  // A virtual environment's python first; then, for --system-site-packages, the one it links to.
  for (const std::string& program : {places.executable, resolved(places.executable)})
    if (const std::string prefix = python_prefix(program); !prefix.empty())
      append_wheels_below(prefix, out);
  if (!places.virtual_environment.empty()) append_wheels_below(places.virtual_environment, out);
  std::ifstream cache(places.loader_cache, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(cache), {}};
  for (std::string& path : paths_in_loader_cache(bytes, kSoname)) out.push_back(std::move(path));
  for (const std::string& directory : places.directories) out.push_back(directory + "/" + kSoname);
  return out;
}

Result<std::string> check_chosen(const std::string& path) {
  const auto refuse = [](const std::string& why) {
    return make_error(ErrorKind::unsupported, 0,
                      "AMEM_NCCL_PATH=%s; set it to the file name of the "
                      "libnccl.so.2 to use, or unset it to have it looked for",
                      why.c_str());
  };
  auto kind = inspect_nccl_file(path);
  if (!kind.ok()) return refuse(kind.error().message);
  if (kind.value() == NcclFileKind::amem) return refuse(path + " is amem's own library, not NCCL");
  if (kind.value() == NcclFileKind::other)
    return refuse(path + " is not NCCL: it does not export ncclCommInitRank");
  return path;
}

std::vector<std::string> split(const char* list, const char* separators) {
  std::vector<std::string> out;
  for (std::string_view rest = list != nullptr ? list : ""; !rest.empty();) {
    const size_t end = std::min(rest.find_first_of(separators), rest.size());
    if (end > 0) out.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return out;
}

std::string started_program() {
  const auto* name = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  if (name == nullptr) return "";
  // Made absolute without following the last component: the link is what names the environment.
  const std::string path = name;
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return resolved(".") + "/" + path;
  return resolved(path.substr(0, slash + 1)) + path.substr(slash);
}

}  // namespace

SearchPlaces search_places_of_this_process() {
  SearchPlaces places;
  places.chosen_path = environment().nccl_path;
  // The loader's own variables, not settings of ours; both separators are the loader's (ld.so(8)).
  places.library_path = split(getenv("LD_LIBRARY_PATH"), ":;");  // allow: the loader's
  for (const LoadedImage& image : loaded_images()) places.loaded_objects.push_back(image.path);
  places.executable = started_program();
  const char* virtual_environment = getenv("VIRTUAL_ENV");  // allow: Python's
  if (virtual_environment != nullptr) places.virtual_environment = virtual_environment;
  places.loader_cache = "/etc/ld.so.cache";
  places.directories = {
    "/usr/local/cuda/lib64",
#if defined(__x86_64__)
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
#else
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
#endif
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib"
  };
  return places;
}

Result<std::string> find_real_nccl(const SearchPlaces& places) {
  if (!places.chosen_path.empty()) return check_chosen(places.chosen_path);
  std::string passed_over;
  for (const std::string& path : candidates(places)) {
    const auto kind = inspect_nccl_file(path);
    if (kind.ok() && kind.value() == NcclFileKind::nccl) return path;
    // Absent files are the rule here; what is there and cannot be used is worth a word.
    if (!kind.ok() && kind.error().code != ENOENT && kind.error().code != ENOTDIR)
      passed_over += "; " + kind.error().message;
  }
  return make_error(
      ErrorKind::unsupported, 0,
      "no libnccl.so.2 found in LD_LIBRARY_PATH, in nvidia/nccl/lib of this Python, in "
      "%s, in /usr/local/cuda/lib64 and in the system's directories: set "
      "AMEM_NCCL_PATH to its file name%s",
      places.loader_cache.c_str(), passed_over.c_str());
}

}  // namespace amem
