// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "shim/dlopen_door.h"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "base/environment.h"
#include "shim/libc_symbol.h"

namespace amem {
namespace {

// True while this thread is inside dlsym for the first search below.
constinit thread_local bool searching = false;
// Depth of our own code below a call of dlopen on this thread. The look-ups below allocate, and a
// preloaded malloc may well call dlopen for its own purposes.
constinit thread_local int depth = 0;
struct Nested {
  Nested() { ++depth; }
  ~Nested() { --depth; }
};

std::atomic<DlopenFunction> next_dlopen{nullptr};

void* open_by_path(const char* file, int flags) {
  void* handle = real_dlopen()(file, flags);
  if (handle != nullptr && depth == 0) {
    Nested nested;
    on_new_images();
  }
  return handle;
}

/// Not environment(): that is read once, and a program may still set AMEM_ENABLE after its first
/// libraries were loaded.
bool enabled() {
  static constinit std::atomic<bool> seen{false};
  if (!seen.load(std::memory_order_relaxed)) seen = read_environment(environ).enable;
  return seen.load(std::memory_order_relaxed);
}

/// True for a function of this library. dlsym(RTLD_NEXT) is relative to its caller's place in the
/// order of look-up, and an interposed dlsym makes itself the caller: it may send us to ourselves.
bool is_own(DlopenFunction function) {
  Dl_info there, here;
  return dladdr(reinterpret_cast<void*>(function), &there) != 0 &&
         dladdr(reinterpret_cast<void*>(&open_by_path), &here) != 0 &&
         there.dli_fbase == here.dli_fbase;
}

}  // namespace

DlopenFunction real_dlopen() {
  DlopenFunction found = next_dlopen.load(std::memory_order_acquire);
  if (found != nullptr) return found;
  // A call of dlopen that comes from inside dlsym, which somebody else may have interposed.
  if (searching) return reinterpret_cast<DlopenFunction>(libc_symbol("dlopen"));
  searching = true;
  Nested nested;
  found = reinterpret_cast<DlopenFunction>(dlsym(RTLD_NEXT, "dlopen"));
  searching = false;
  if (found == nullptr || is_own(found))
    found = reinterpret_cast<DlopenFunction>(libc_symbol("dlopen"));
  next_dlopen.store(found, std::memory_order_release);
  return found;
}

}  // namespace amem

amem::DlopenFunction amem_dlopen_route(const char* file) noexcept {
  using namespace amem;
  if (depth > 0 || file == nullptr || strchr(file, '/') == nullptr || strchr(file, '$') != nullptr)
    return real_dlopen();
  Nested nested;
  return enabled() ? open_by_path : real_dlopen();
}
