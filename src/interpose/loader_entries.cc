// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "interpose/loader_entries.h"

#include <dlfcn.h>

#include <cerrno>
#include <cstring>

#include "interpose/image.h"
#include "interpose/interposer.h"

namespace amem {
namespace {

constinit DlopenFunction g_dlopen = nullptr;
constinit DlsymFunction g_dlsym = nullptr;

void* open_by_path(const char* file, int flags) {
  void* const handle = g_dlopen(file, flags);
  if (handle == nullptr) return nullptr;
  const int before = errno;
  scan_images();
  errno = before;
  return handle;
}

void* look_up(void* handle, const char* name) {
  if (void* const found = g_dlsym(handle, name)) {
    const void* const entry = named_entry(name, reinterpret_cast<uintptr_t>(found));
    return entry != nullptr ? const_cast<void*>(entry) : found;
  }
  const Interception& client = *interposition_client();
  void* const answer = client.adds(name) ? client.answer(handle, name) : nullptr;
  if (answer != nullptr) (void)dlerror();  // of the look-up that failed
  return answer;
}

}  // namespace

std::array<LoaderEntry, 2> find_loader_entries() {
  const uintptr_t open = first_definition("dlopen"), sym = first_definition("dlsym");
  g_dlopen = reinterpret_cast<DlopenFunction>(open);
  g_dlsym = reinterpret_cast<DlsymFunction>(sym);
  return {{{"dlopen", open, reinterpret_cast<const void*>(&amem_dlopen_entry)},
           {"dlsym", sym, reinterpret_cast<const void*>(&amem_dlsym_entry)}}};
}

DlopenFunction real_dlopen() { return g_dlopen; }
DlsymFunction real_dlsym() { return g_dlsym; }

}  // namespace amem

amem::DlopenFunction amem_dlopen_route(const char* file) noexcept {
  const bool is_path =
      file != nullptr && strchr(file, '/') != nullptr && strchr(file, '$') == nullptr;
  return is_path ? amem::open_by_path : amem::g_dlopen;
}

amem::DlsymFunction amem_dlsym_route(void* handle, const char* name) noexcept {
  const amem::Interception* const client = amem::interposition_client();
  if (client == nullptr) return amem::g_dlsym;
  const int before = errno;
  amem::scan_images();
  client->before_look_up(name);
  errno = before;
  return handle != RTLD_NEXT && (client->adds(name) || amem::is_named(name)) ? amem::look_up
                                                                             : amem::g_dlsym;
}
