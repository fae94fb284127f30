// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "interpose/interposer.h"

#include <dlfcn.h>
#include <pthread.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "interpose/slots.h"

namespace amem {
namespace {

using Adoption = Interception::Adoption;

constinit std::atomic<const Interception*> g_client{nullptr};
constinit std::atomic<NamedFunctions*> g_named{nullptr};  ///< the first; a list

// The process's own definitions, the first in the order of loading. Set before g_client.
constinit DlopenFunction g_dlopen = nullptr;
constinit DlsymFunction g_dlsym = nullptr;

// The number of changes, image_changes(), at the scan that was completed last. Released and
// acquired: a thread that need not scan reads the slots that the scan has stored.
constinit std::atomic<unsigned long long> g_scanned{0};

// How many threads are asking the loader. Relaxed: a forked child has the memory of fork(2), where
// stores of other threads fault in the order of their program. g_left_out is read by the thread
// that has scanned.
constinit std::atomic<int> g_scanning{0};

/// What scans know of an image.
struct SeenImage {
  bool is_examined = false;
  bool is_patchable = false;
  bool is_patched = false;
  bool was_unbound = false;  ///< not all of its slots were bound at a scan
};

// By the image's place in the order of loading, because the loader appends images. A removal moves
// them, and clears all. Guarded by the loader's list lock, and therefore not allocated.
constinit std::array<SeenImage, 4096> g_seen{};
constinit unsigned long long g_removed = 0;  ///< the removals before the last scan
constinit std::atomic<bool> g_left_out{false};

/// Calls `work(const Image&, SeenImage&)` for each image for which `needs_work(const SeenImage&)`
/// is true. False if there are images that do not fit, of which nothing is kept.
template <typename NeedsWork, typename Work>
bool visit_seen(NeedsWork needs_work, Work work) {
  size_t place = 0;
  SeenImage *seen = nullptr, other;
  const auto skip = [&](const dl_phdr_info& info) {
    if (std::exchange(g_removed, info.dlpi_subs) != info.dlpi_subs) g_seen = {};
    seen = place < g_seen.size() ? &g_seen[place] : &(other = {});
    ++place;
    return !needs_work(*seen);
  };
  visit_images(skip, [&](const Image& image) { work(image, *seen); });
  return place <= g_seen.size();
}

bool is_left_alone(const Image& image) {
  const std::string_view name = image.file_name();
  return image.contains(reinterpret_cast<uintptr_t>(&is_left_alone)) ||
         name.starts_with("libc.so.") || name.starts_with("ld-linux") ||
         name.starts_with("libcuda.so") || name.starts_with("libcudart") ||
         name.starts_with("linux-vdso");
}

/// amem's entry for a slot of dlopen or dlsym; nullptr for other slots, and if another interposer
/// owns the slot.
const void* loader_entry_for(const Slot& slot) {
  const auto entry_if_own = [&](auto* real, void (*entry)()) {
    const bool is_own = slot.is_unbound || slot.function == reinterpret_cast<uintptr_t>(real);
    return is_own ? reinterpret_cast<const void*>(entry) : nullptr;
  };
  if (strcmp(slot.symbol, "dlopen") == 0) return entry_if_own(g_dlopen, amem_dlopen_entry);
  if (strcmp(slot.symbol, "dlsym") == 0) return entry_if_own(g_dlsym, amem_dlsym_entry);
  return nullptr;
}

struct NamedFunction {
  const NamedFunctions* all = nullptr;
  size_t index = 0;
};

/// The intercepted function with this name; `all` is nullptr if there is none.
NamedFunction find_named(const char* name) {
  for (const NamedFunctions* named = g_named.load(); named != nullptr; named = named->next.load())
    for (size_t i = 0; i < named->names.size(); ++i)
      if (strcmp(name, named->names[i]) == 0) return {named, i};
  return {};
}

/// The replacement for a function by name, or nullptr. `user`: the image of the slot, or nullptr.
const void* named_entry(const char* name, uintptr_t function, const Image* user) {
  const NamedFunction named = find_named(name);
  if (named.all == nullptr || (function != 0 && is_in_this_library(function))) return nullptr;
  return named.all->entry(named.index, function, user);
}

void patch(const Image& image, const Interception& client, SeenImage& seen) {
  seen.is_patched = true;
  for (const NamedFunctions* named = g_named.load(); named != nullptr; named = named->next.load())
    if (named->visit != nullptr) named->visit(image);
  visit_slots(image, [&](const Slot& slot) {
    seen.was_unbound |= slot.is_unbound;
    const void* function = named_entry(slot.symbol, slot.is_unbound ? 0 : slot.function, &image);
    if (function == nullptr) function = loader_entry_for(slot);
    // An unbound slot of a target's function is bound by the target's symbol, which is redirected.
    if (function == nullptr && !slot.is_unbound) function = client.replacement(slot.function);
    if (function != nullptr) (void)set_slot(image, slot, function);
  });
}

/// Two passes, because a target has to be known before slots are compared with its functions.
/// `again`: also images that were patched.
bool scan(const Interception& client, unsigned long long changes, bool again) {
  bool found_target = false, is_complete = true;
  const auto is_new = [](const SeenImage& seen) { return !seen.is_examined; };
  const bool all_fit = visit_seen(is_new, [&](const Image& image, SeenImage& seen) {
    seen.is_examined = is_left_alone(image);
    if (seen.is_examined) return;
    const Adoption adoption = image.is_relocated() ? client.adopt(image) : Adoption::not_ready;
    seen.is_examined = adoption != Adoption::not_ready;
    seen.is_patchable = adoption == Adoption::none;
    is_complete &= seen.is_examined;  // another thread is loading it
    found_target |= adoption == Adoption::target;
  });
  g_left_out.store(!all_fit, std::memory_order_relaxed);
  const auto is_due = [&](const SeenImage& seen) {
    return seen.is_patchable && (!seen.is_patched || found_target || (again && seen.was_unbound));
  };
  visit_seen(is_due, [&](const Image& image, SeenImage& seen) { patch(image, client, seen); });
  if (is_complete) g_scanned.store(changes, std::memory_order_release);
  return found_target;
}

void* open_by_path(const char* file, int flags) {
  void* const handle = g_dlopen(file, flags);
  const int before = errno;
  if (handle != nullptr) scan_images();
  errno = before;
  return handle;
}

void* look_up(void* handle, const char* name) {
  if (void* const found = g_dlsym(handle, name)) {
    const void* const entry = named_entry(name, reinterpret_cast<uintptr_t>(found), nullptr);
    return entry != nullptr ? const_cast<void*>(entry) : found;
  }
  const Interception& client = *g_client.load(std::memory_order_acquire);
  void* const answer = client.adds(name) ? client.answer(handle, name) : nullptr;
  if (answer != nullptr) (void)dlerror();  // of the look-up that failed
  return answer;
}

}  // namespace

void intercept_names(NamedFunctions& functions) {
  NamedFunctions* known = nullptr;
  for (auto* end = &g_named; !end->compare_exchange_strong(known, &functions);
       end = &std::exchange(known, nullptr)->next)
    if (known == &functions) return;
}

void start_interposition(const Interception& client) {
  static constinit std::atomic<const Interception*> wanted{nullptr};
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  wanted.store(&client);
  pthread_once(&once, [] {
    g_dlopen = reinterpret_cast<DlopenFunction>(first_definition("dlopen"));
    g_dlsym = reinterpret_cast<DlsymFunction>(first_definition("dlsym"));
    // A child that was forked while another thread scanned would wait for the loader's lock for
    // ever.
    pthread_atfork(nullptr, nullptr, [] {
      if (g_scanning.load(std::memory_order_relaxed) > 0) g_client.store(nullptr);
    });
    g_client.store(wanted.load(), std::memory_order_release);
  });
  scan_images();
}

void scan_images(bool again) {
  const Interception* const client = g_client.load(std::memory_order_acquire);
  if (client == nullptr) return;
  g_scanning.fetch_add(1, std::memory_order_relaxed);
  const unsigned long long changes = image_changes();
  const bool is_due = again || changes != g_scanned.load(std::memory_order_acquire);
  if (is_due && scan(*client, changes, again)) client->targets_found();
  g_scanning.fetch_sub(1, std::memory_order_relaxed);
}

bool left_out_images() { return g_left_out.load(std::memory_order_relaxed); }

DlsymFunction real_dlsym() { return g_dlsym; }

}  // namespace amem

amem::DlopenFunction amem_dlopen_route(const char* file) noexcept {
  const bool is_path =
      file != nullptr && strchr(file, '/') != nullptr && strchr(file, '$') == nullptr;
  return is_path ? amem::open_by_path : amem::g_dlopen;
}

amem::DlsymFunction amem_dlsym_route(void* handle, const char* name) noexcept {
  const amem::Interception* const client = amem::g_client.load(std::memory_order_acquire);
  if (client == nullptr) return amem::g_dlsym;
  const int before = errno;
  amem::scan_images();
  client->before_look_up(name);
  errno = before;
  // RTLD_DEFAULT includes what only the caller was loaded with, which a look-up by amem does not.
  const bool is_named = handle != RTLD_DEFAULT && amem::find_named(name).all != nullptr;
  const bool may_answer = client->adds(name) || is_named;
  return handle != RTLD_NEXT && may_answer ? amem::look_up : amem::g_dlsym;
}
