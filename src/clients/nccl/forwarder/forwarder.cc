// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/nccl/forwarder/forwarder.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "amem_nccl_abi.h"
#include "base/cancellation.h"
#include "base/environment.h"
#include "base/log.h"
#include "base/result.h"
#include "clients/nccl/doors/added_functions.h"
#include "clients/nccl/doors/nccl_copies.h"
#include "interpose/slots.h"

namespace amem {
namespace {

/// The names that amem's libnccl.so.2 exports, terminated by nullptr. The symbol identifies the
/// library.
constexpr char kNames[] = "amemForwarderNames";

// The address range of amem's libnccl.so.2, which is never unloaded. Atomic, because
// ThreadSanitizer does not know the loader's list lock, under which they are written.
constinit std::atomic<uintptr_t> g_begin{0}, g_end{0};

/// RTLD_LOCAL, because its symbols must not precede amem's. Not RTLD_DEEPBIND, because NCCL's
/// look-ups would bypass preloaded libraries.
void* open_real(const std::string& path) {
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr ||
      (dlsym(handle, kNames) == nullptr && dlsym(handle, "ncclCommInitRank") != nullptr))
    return handle;
  dlclose(handle);
  return nullptr;
}

/// The path of an NCCL library that the process has already loaded, or "".
std::string loaded_nccl() {
  char path[PATH_MAX] = "";
  visit_images([&](const Image& image) {
    if (path[0] == '\0' && is_nccl(image)) strncpy(path, image.path, sizeof path - 1);
  });
  return path;
}

/// The folders in which the loader searches for the program's libraries.
std::vector<std::string> search_folders() {
  std::vector<std::string> folders;
  void* const program = dlopen(nullptr, RTLD_LAZY);
  Dl_serinfo size{};
  if (dlinfo(program, RTLD_DI_SERINFOSIZE, &size) != 0) return folders;
  const std::unique_ptr<void, void (*)(void*)> memory(calloc(1, size.dls_size), free);
  auto* const list = static_cast<Dl_serinfo*>(memory.get());
  list->dls_size = size.dls_size;
  list->dls_cnt = size.dls_cnt;
  if (dlinfo(program, RTLD_DI_SERINFO, list) != 0) return folders;
  for (unsigned i = 0; i < list->dls_cnt; ++i) folders.emplace_back(list->dls_serpath[i].dls_name);
  return folders;
}

Result<void*> find_real() {
  if (const std::string& chosen = environment().nccl_path; !chosen.empty()) {
    if (void* handle = open_real(chosen)) return handle;
    const char* const why = dlerror();
    return unsupported_error(
        "AMEM_NCCL_PATH=%s: %s; set it to the file name of the libnccl.so.2 to use", chosen.c_str(),
        why != nullptr ? why : "it is not NCCL, or amem's own libnccl.so.2");
  }
  if (const std::string loaded = loaded_nccl(); !loaded.empty())
    if (void* handle = open_real(loaded)) return handle;
  for (const std::string& folder : search_folders())
    if (void* handle = open_real(folder + "/libnccl.so.2")) return handle;
  return unsupported_error(
      "the folders in which the loader searches contain no libnccl.so.2 except amem's own: set "
      "AMEM_NCCL_PATH to its file name");
}

void hide_absent_functions(void* real) {
  const auto* names = reinterpret_cast<const char* const*>(first_definition(kNames));
  std::vector<const char*> absent;
  for (; names != nullptr && *names != nullptr; ++names)
    if (added_function(*names) == nullptr && dlsym(real, *names) == nullptr)
      absent.push_back(*names);
  (void)dlerror();
  visit_images([&](const Image& image) {
    if (!is_forwarder(image)) return;
    for (const char* name : absent)
      if (const ElfW(Sym)* symbol = image.view.definition(name))
        (void)store_word(image, const_cast<ElfW(Addr)*>(&symbol->st_value), 0);
  });
}

// True while the thread searches for the real NCCL. Its look-ups are not changed then.
constinit thread_local bool t_looking = false;

/// The NCCL library behind amem's libnccl.so.2, or nullptr.
///
/// Threads that call it at the same time each search, with the same result. No thread waits for
/// another, because the caller may be a constructor that runs with the loader's lock held.
void* real_nccl() {
  static constinit std::atomic<bool> is_found{false};
  static constinit std::atomic<void*> handle{nullptr};
  // Relaxed: the acquire of is_found orders it.
  if (is_found.load(std::memory_order_acquire)) return handle.load(std::memory_order_relaxed);
  const bool looked_before = std::exchange(t_looking, true);
  if (is_enabled()) catch_nccl();
  const Result<void*> real = find_real();
  if (real.ok()) {
    scan_images();
    hide_absent_functions(real.value());
    handle.store(real.value(), std::memory_order_relaxed);
  }
  t_looking = looked_before;
  if (!is_found.exchange(true, std::memory_order_release) && !real.ok())
    AMEM_LOG(error, -1, "no NCCL to forward to: %s", real.error().message.c_str());
  return real.ok() ? real.value() : nullptr;
}

// --- Replacements of functions to which amem cannot forward

// In the System V ABI a callee may ignore its arguments, in registers and on the stack, so one
// function without parameters replaces all functions with the same type of result. The empty team
// is in the registers in which a number 0 is.
int return_invalid_usage() { return ncclInvalidUsage; }
int return_system_error() { return ncclSystemError; }
const char* return_text() {
  return "amem found no usable NCCL library to forward to; its first error line says why";
}
struct EmptyTeam {
  int ranks, rank, stride;
};
EmptyTeam return_empty_team() { return {0, 0, 0}; }

/// A function that returns `error`, or a text, an empty struct or 0 if the function does not return
/// ncclResult_t (nccl.h and nccl_device.h of 2.28 to 2.30).
void* replacement_of(std::string_view name, int (*error)()) {
  if (name.starts_with('p')) name.remove_prefix(1);
  if (name == "ncclGetErrorString" || name == "ncclGetLastError")
    return reinterpret_cast<void*>(return_text);
  if (name == "ncclTeamWorld" || name == "ncclTeamLsa" || name == "ncclTeamRail" ||
      name == "ncclTeamRankToWorld" || name == "ncclTeamRankToLsa" || name == "ncclLLA2ACalcSlots")
    return reinterpret_cast<void*>(return_empty_team);
  return reinterpret_cast<void*>(error);
}

}  // namespace

// Relaxed: g_begin and g_end are used in visit_images() only, whose lock orders them.
bool is_forwarder(const Image& image) {
  if (image.view.definition(kNames) == nullptr) return false;
  g_begin.store(image.begin, std::memory_order_relaxed);
  g_end.store(image.end, std::memory_order_relaxed);
  return true;
}

bool is_in_forwarder(uintptr_t address) {
  return address >= g_begin.load(std::memory_order_relaxed) &&
         address < g_end.load(std::memory_order_relaxed);
}

void before_look_up(const char* name) {
  const bool is_nccl_name = strncmp(name, "nccl", 4) == 0 || strncmp(name, "pnccl", 5) == 0;
  if (!is_nccl_name || t_looking || added_function(name) != nullptr) return;
  if (first_definition(kNames) != 0) (void)real_nccl();
}

}  // namespace amem

void* amemForward(const char* name) noexcept {
  const amem::NoCancellation no_cancellation;
  using namespace amem;
  if (name == nullptr) return nullptr;
  if (void* added = added_function(name)) return added;
  void* const real = real_nccl();
  if (real == nullptr) return replacement_of(name, return_system_error);
  if (void* function = dlsym(real, name)) return function;
  AMEM_LOG(warn, -1,
           "the NCCL library behind amem's libnccl.so.2 has no %s: the call returns "
           "ncclInvalidUsage",
           name);
  return replacement_of(name, return_invalid_usage);
}
