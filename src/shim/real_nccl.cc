// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "shim/real_nccl.h"

#include <dlfcn.h>
#include <link.h>

#include <atomic>

#include "hook/loaded_image.h"
#include "shim/dlopen_door.h"

namespace amem {
namespace {

struct RealNccl {
  std::string path;
  void* handle;
};
using Loaded = Result<RealNccl>;

constinit LoadCallbacks load_callbacks;

void remember_image(void* handle) {
  const link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0) return;
  for (const LoadedImage& image : loaded_images()) {
    if (image.load_bias != map->l_addr || image.is_executable) continue;
    g_real_nccl_image.begin = image.begin;
    g_real_nccl_image.size_bytes = image.end - image.begin;
  }
}

Loaded load() {
  auto path = find_real_nccl(search_places_of_this_process());
  if (!path.ok()) return std::move(path.error());
  if (load_callbacks.before_load != nullptr) load_callbacks.before_load();
  // By path, because our own library has the SONAME. RTLD_LOCAL: its symbols must not come before
  // ours. Not RTLD_DEEPBIND: it would bind NCCL's look-ups past everything that is preloaded.
  void* handle = real_dlopen()(path.value().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = dlerror();
    return make_error(ErrorKind::unsupported, 0,
                      "dlopen(%s) failed: %s; set AMEM_NCCL_PATH to "
                      "another libnccl.so.2",
                      path.value().c_str(), why != nullptr ? why : "?");
  }
  remember_image(handle);
  if (load_callbacks.after_load != nullptr) load_callbacks.after_load(handle);
  return RealNccl{path.value(), handle};
}

constinit std::atomic<bool> load_done{false};

/// The first caller loads, others wait for it; so it waits for the loader's lock, which "once"
/// makes inevitable. A thread inside dlopen(3) that comes here would have to be running a
/// constructor that calls NCCL. Leaked on purpose: threads of NCCL may still call us while the
/// process ends.
const Loaded& loaded_once() {
  static const Loaded* const found = new Loaded(load());
  load_done.store(true, std::memory_order_release);
  return *found;
}

}  // namespace

void set_load_callbacks(LoadCallbacks callbacks) { load_callbacks = callbacks; }

Result<void*> real_nccl_symbol(const char* name) {
  const Loaded& nccl = loaded_once();
  if (!nccl.ok()) return nccl.error();
  return dlsym(nccl.value().handle, name);
}

std::string real_nccl_path() {
  if (!load_done.load(std::memory_order_acquire) || !loaded_once().ok()) return "";
  return loaded_once().value().path;
}

}  // namespace amem
