// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/nccl/hook_context.h"

#include "memory/backing_steps.h"

namespace amem {

void install_hooks(HookContext* context) {
  g_hook_context.store(context, std::memory_order_release);
}

void erase_if_unused(HookContext& context, Allocation& allocation) {
  if (!context.registry->is_unused(allocation)) return;
  context.exchange->forget(allocation);
  erase_unused(*context.driver, *context.registry, allocation);
}

void pin_range(HookContext& context, DeviceAddress address, size_t size_bytes,
               const char* because) {
  if (context.forward_only) return;
  MutexLock lock(context.registry->mutex);
  for (const Mapping* mapping : context.registry->mappings_in(address, size_bytes))
    if (Allocation* allocation = context.registry->find(mapping->allocation))
      allocation->make_persistent(because);
}

}  // namespace amem
