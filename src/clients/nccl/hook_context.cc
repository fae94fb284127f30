// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/nccl/hook_context.h"

#include <utility>

#include "base/log.h"
#include "memory/backing_steps.h"

namespace amem {

DriverResult still_copied(const HookContext& context) {
  AMEM_LOG(error, -1, "a driver call of NCCL fails: its memory is still copied after %ld ms",
           context.timeout_ms);
  return driver_result::kNotReady;
}

Allocation* find_copied(HookContext& context, DriverHandle handle) {
  const Deadline deadline = Deadline::after_ms(context.timeout_ms);
  if (context.registry->wait_copied(allocation_of(handle), deadline))
    return context.registry->find_handle(handle);
  (void)still_copied(context);
  return nullptr;
}

void erase_if_unused(HookContext& context, Allocation& allocation) {
  if (!context.registry->is_unused(allocation)) return;
  context.exchange->forget(allocation);
  erase_unused(*context.driver, *context.registry, allocation);
}

size_t driver_bytes(const HookContext& context, size_t size_bytes) {
  const size_t unit = context.granularity_bytes.load(std::memory_order_relaxed);
  return unit == 0 ? size_bytes : (size_bytes + unit - 1) / unit * unit;
}

void refuse_pauses(HookContext& context, std::string because) {
  MutexLock lock(context.registry->mutex);
  if (context.registry->refusal.empty()) context.registry->refusal = std::move(because);
}

void forward_unknown_form(const std::string& look_up) {
  if (hook_context() == nullptr) make_hook_context();
  if (hook_context() == nullptr) return;
  hook_context()->gives_no_handles = true;
  refuse_pauses(*hook_context(),
                look_up +
                    " returned a function that this version of amem does not know: the driver "
                    "has another form of it, or another library wraps it; update amem, or "
                    "start without that library");
}

RegisteredRange::RegisteredRange(HookContext* context, DeviceAddress address, size_t size_bytes)
    : context_(context) {
  if (context == nullptr || context->forward_only) return;
  MutexLock lock(context->registry->mutex);
  for (const Mapping* mapping : context->registry->mappings_in(address, size_bytes))
    add(mapping->allocation);
}

RegisteredRange::RegisteredRange(HookContext* context, DriverHandle backing) : context_(context) {
  if (context == nullptr || context->forward_only || backing == 0) return;
  MutexLock lock(context->registry->mutex);
  for (const auto& [id, known] : context->registry->backings())
    if (known.handle == backing)
      for (const auto& [offset_bytes, allocation] : known.allocations) add(allocation);
}

void RegisteredRange::add(AllocationId id) {
  Allocation* const allocation = context_->registry->find(id);
  if (allocation == nullptr) return;
  ++allocation->registering;
  allocations_.push_back(id);
}

RegisteredRange::~RegisteredRange() {
  if (allocations_.empty() || context_->forward_only) return;
  MutexLock lock(context_->registry->mutex);
  for (const AllocationId id : allocations_)
    if (Allocation* const allocation = context_->registry->find(id)) --allocation->registering;
}

void RegisteredRange::keep(const char* because) {
  if (allocations_.empty() || context_->forward_only) return;
  MutexLock lock(context_->registry->mutex);
  for (const AllocationId id : allocations_)
    if (Allocation* const allocation = context_->registry->find(id)) {
      allocation->make_persistent(because);
      // A range over several buffers, such as a whole slab, says nothing about their sizes.
      if (allocations_.size() == 1 && allocation->is_buffer &&
          allocation->size_bytes >= kSmallestOwnObject)
        context_->registered_sizes.insert(allocation->size_bytes);
    }
}

}  // namespace amem
