// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/tensors/virtual_memory_calls.h"

#include <algorithm>
#include <array>

#include "clients/driver_entries/library_calls.h"
#include "clients/tensors/memory_calls.h"
#include "clients/untagged/untagged_memory.h"
#include "interpose/interposer.h"

namespace amem {
namespace {

constinit bool g_tags = false, g_records = false;
constinit std::atomic<uintptr_t> g_real_create{0};

DriverResult create(DriverHandle* handle, size_t size_bytes, const AllocationProperties* properties,
                    unsigned long long flags) {
  const auto real = reinterpret_cast<decltype(&create)>(g_real_create.load());
  VirtualMemory* const memory = active<VirtualMemory>();
  if (memory == nullptr) return real(handle, size_bytes, properties, flags);
  if (g_records) untagged_memory().note_context(memory->driver());
  if (const auto created =
          g_tags ? create_in_region(current_region, handle, size_bytes, properties, flags)
                 : std::nullopt)
    return *created;
  const DriverResult result = real(handle, size_bytes, properties, flags);
  if (g_records && result == driver_result::kSuccess &&
      properties->location.type == kLocationDevice)
    untagged_memory().add(*handle, size_bytes, properties->location.id,
                          __builtin_return_address(0));
  return result;
}

DriverResult release(VirtualMemory& memory, DriverHandle handle) {
  if (g_records) untagged_memory().remove(handle);
  return memory.release(handle);
}

const DriverCall kOwnCalls[] = {
    {"cuMemCreate", "cuMemCreate", reinterpret_cast<const void*>(&create), &g_real_create},
    AMEM_DRIVER_CALL(cuMemRelease, cuMemRelease, &release),
    AMEM_DRIVER_CALL(cuMulticastBindAddr, cuMulticastBindAddr, &VirtualMemory::bind_address)};

/// The symbols, which are also the names: of kOwnCalls, whose cuMemRelease counts, and of the
/// shared calls. Set before interception.
constinit std::array<const char*, std::size(kOwnCalls) + kSharedLibraryCalls.size()> g_names{};

const void* entry_of(size_t which, uintptr_t function, const Image* user) {
  const uintptr_t own = user != nullptr ? first_definition(g_names[which]) : function;
  // In visit_images() nothing may be reported: a slot of another definition stays as it is.
  if (user != nullptr && function != 0 && function != own) return nullptr;
  void* const found = reinterpret_cast<void*>(own);
  void* const entry = library_entry(kOwnCalls, g_names[which], found);
  return entry != found ? entry : nullptr;
}

constinit NamedFunctions g_functions{g_names, entry_of};

}  // namespace

void catch_virtual_memory_calls(bool tags, bool records) {
  g_tags = tags;
  g_records = records;
  if (g_names.front() == nullptr) {
    const auto own = std::ranges::transform(kOwnCalls, g_names.begin(), &DriverCall::symbol);
    std::ranges::transform(kSharedLibraryCalls, own.out, &DriverCall::symbol);
  }
  if (!tags) g_functions.names = g_functions.names.first(2);
  intercept_names(g_functions);
}

void* virtual_memory_entry(const char* name, void* function) {
  return library_entry(kOwnCalls, name, function);
}

}  // namespace amem
