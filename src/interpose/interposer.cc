// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "interpose/interposer.h"

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstring>
#include <string_view>

#include "interpose/loader_entries.h"
#include "interpose/seen_images.h"
#include "interpose/slots.h"

namespace amem {
namespace {

using Adoption = Interception::Adoption;

constinit std::atomic<const Interception*> g_client{nullptr};
constinit std::atomic<const NamedFunctions*> g_named{nullptr};
constinit std::array<LoaderEntry, 2> g_loader_entries{};  // set before g_client

// The scan that was completed last, as two words that are compared with ImageChanges.
constinit std::atomic<unsigned long long> g_scanned_added{0}, g_scanned_removed{0};

// How many threads are asking the loader.
constinit std::atomic<int> g_scanning{0};
struct Scanning {
  Scanning() { g_scanning.fetch_add(1, std::memory_order_relaxed); }
  ~Scanning() { g_scanning.fetch_sub(1, std::memory_order_relaxed); }
  Scanning(const Scanning&) = delete;
};

constinit SeenImages g_seen;  // guarded by the loader's list lock
constinit std::atomic<bool> g_left_out{false};

bool is_left_alone(const Image& image) {
  const std::string_view name = image.name();
  return image.contains(reinterpret_cast<uintptr_t>(&is_left_alone)) ||
         name.starts_with("libc.so.") || name.starts_with("ld-linux") ||
         name.starts_with("libcuda.so") || name.starts_with("linux-vdso");
}

/// What stands in for a function of the loader; nullptr when the slot has none, or another
/// interposer's.
const void* loader_entry_for(const Slot& slot) {
  for (const LoaderEntry& entry : g_loader_entries)
    if (strcmp(slot.symbol, entry.name) == 0)
      return slot.is_unbound || slot.function == entry.real ? entry.entry : nullptr;
  return nullptr;
}

/// The index of an intercepted name, or -1.
ptrdiff_t index_of(const char* name) {
  const NamedFunctions* const named = g_named.load(std::memory_order_acquire);
  if (named == nullptr) return -1;
  for (size_t i = 0; i < named->names.size(); ++i)
    if (strcmp(name, named->names[i]) == 0) return static_cast<ptrdiff_t>(i);
  return -1;
}

void patch(const Image& image, const Interception& client, SeenImages::Entry& seen) {
  seen.is_patched = true;
  visit_slots(image, [&](const Slot& slot) {
    seen.was_unbound |= slot.is_unbound;
    const void* function = loader_entry_for(slot);
    if (function == nullptr)
      function = named_entry(slot.symbol, slot.is_unbound ? 0 : slot.function);
    // An unbound slot of a target's function is bound by the target's symbol, which is redirected.
    if (function == nullptr && !slot.is_unbound) function = client.replacement(slot.function);
    if (function != nullptr) (void)set_slot(image, slot, function);
  });
}

/// Two passes, because a target has to be known before slots are compared with its functions.
/// `again`: also images that were patched.
bool scan(const Interception& client, const ImageChanges& changes, bool again) {
  bool found_target = false, is_complete = true, left_out = false;
  visit_images([&](const Image& image) {
    g_seen.forget_after_removal(changes.removed);
    if (is_left_alone(image) || g_seen.find(image) != nullptr) return;
    const Adoption adoption = image.is_relocated() ? client.adopt(image) : Adoption::not_ready;
    if (adoption == Adoption::not_ready) {
      is_complete = false;  // another thread is loading it
      return;
    }
    found_target |= adoption == Adoption::target;
    left_out |= !g_seen.add(image, adoption == Adoption::target);
  });
  g_left_out.store(left_out, std::memory_order_relaxed);
  visit_images([&](const Image& image) {
    SeenImages::Entry* const seen = g_seen.find(image);
    if (seen == nullptr || seen->is_target) return;
    if (!seen->is_patched || found_target || (again && seen->was_unbound))
      patch(image, client, *seen);
  });
  if (!is_complete) return found_target;
  g_scanned_added.store(changes.added, std::memory_order_relaxed);
  g_scanned_removed.store(changes.removed, std::memory_order_relaxed);
  return found_target;
}

}  // namespace

void intercept_names(const NamedFunctions& functions) {
  const NamedFunctions* none = nullptr;
  g_named.compare_exchange_strong(none, &functions);
}

void start_interposition(const Interception& client) {
  static constinit std::atomic<const Interception*> wanted{nullptr};
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  wanted.store(&client);
  pthread_once(&once, [] {
    g_loader_entries = find_loader_entries();
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
  const Scanning scanning;
  const ImageChanges changes = image_changes();
  if (!again && changes.added == g_scanned_added.load(std::memory_order_relaxed) &&
      changes.removed == g_scanned_removed.load(std::memory_order_relaxed))
    return;
  if (scan(*client, changes, again)) client->targets_found();
}

bool is_named(const char* name) { return index_of(name) >= 0; }

const void* named_entry(const char* name, uintptr_t function) {
  const ptrdiff_t index = index_of(name);
  if (index < 0 || (function != 0 && is_in_this_library(function))) return nullptr;
  return g_named.load()->entry(static_cast<size_t>(index), function);
}

bool left_out_images() { return g_left_out.load(std::memory_order_relaxed); }

const Interception* interposition_client() { return g_client.load(std::memory_order_acquire); }

}  // namespace amem
