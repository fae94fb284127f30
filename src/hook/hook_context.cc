// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "hook/hook_context.h"

#include "registry/kind_policy.h"

namespace amem {
namespace {

std::atomic<HookContext*> g_context{nullptr};

}  // namespace

HookContext* hook_context() { return g_context.load(std::memory_order_acquire); }

void install_hooks(HookContext* context) { g_context.store(context, std::memory_order_release); }

void erase_if_unused(HookContext& context, Allocation& allocation) {
  if (!Registry::is_unused(allocation)) return;
  if (allocation.backing.is_here()) context.driver->cuMemRelease(allocation.backing.handle);
  context.exchange->forget(allocation);
  context.registry->erase(allocation.id);
}

void pin_range(HookContext& context, DeviceAddress address, size_t size_bytes,
               const char* because) {
  if (context.forward_only) return;
  MutexLock lock(context.registry->mutex);
  for (const Mapping* mapping : context.registry->mappings_in(address, size_bytes))
    if (Allocation* allocation = context.registry->find(mapping->allocation))
      pin(*allocation, because);
}

}  // namespace amem
