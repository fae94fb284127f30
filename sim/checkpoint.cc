// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sim/checkpoint.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "sim/address_space.h"
#include "sim/context.h"
#include "sim/handles.h"
#include "sim/multicast.h"

namespace amem::sim {
namespace {

using Clock = std::chrono::steady_clock;

constexpr useconds_t kPollUs = 500;

/// Each of them once.
std::set<BackingRef> all_backings() {
  std::set<BackingRef> all;
  const auto add = [&all](const std::vector<BackingRef>& more) {
    all.insert(more.begin(), more.end());
  };
  add(Handles::instance().backings());
  add(AddressSpace::instance().backings());
  for (Context* const context : all_contexts()) add(context->local_memory());
  return all;
}

}  // namespace

Checkpoint& Checkpoint::instance() {
  static constinit Checkpoint checkpoint;
  return checkpoint;
}

void Checkpoint::begin_call() {
  for (;;) {
    running_calls_.fetch_add(1);
    if (state_ == kProcessRunning) return;
    running_calls_.fetch_sub(1);
    usleep(kPollUs);
  }
}

bool Checkpoint::at_rest() const {
  if (running_calls_ != 0) return false;
  const std::vector<Context*> all = all_contexts();
  return std::all_of(all.begin(), all.end(), [](Context* one) { return one->idle(); });
}

CuResult Checkpoint::lock(unsigned timeout_ms) {
  CuProcessState expected = kProcessRunning;
  if (!state_.compare_exchange_strong(expected, kProcessLocked)) return kErrorIllegalState;
  const auto deadline = Clock::now() + std::chrono::milliseconds(timeout_ms);
  while (!at_rest()) {
    if (timeout_ms != 0 && Clock::now() >= deadline) {
      state_ = kProcessRunning;
      return kErrorNotReady;
    }
    usleep(kPollUs);
  }
  return kSuccess;
}

CuResult Checkpoint::save() {
  if (state_ != kProcessLocked) return kErrorIllegalState;
  const std::set<BackingRef> all = all_backings();
  const auto is_multicast = [](const BackingRef& one) {
    return dynamic_cast<const Multicast*>(one.get()) != nullptr;
  };
  while (std::any_of(all.begin(), all.end(), is_multicast)) pause();
  CuResult result = AddressSpace::instance().hide_device_memory();
  for (const BackingRef& one : all) {
    if (result != kSuccess || !one->is_device_memory()) continue;
    result = one->is_import() ? kErrorNotSupported : one->save();
  }
  state_ = result == kSuccess ? kProcessCheckpointed : kProcessFailed;
  return result;
}

CuResult Checkpoint::restore() {
  if (state_ != kProcessCheckpointed) return kErrorIllegalState;
  for (const BackingRef& one : all_backings())
    if (const CuResult restored = one->restore(); restored != kSuccess) return restored;
  const CuResult shown = AddressSpace::instance().show_device_memory();
  state_ = shown == kSuccess ? kProcessLocked : kProcessFailed;
  return shown;
}

CuResult Checkpoint::unlock() {
  CuProcessState expected = kProcessLocked;
  return state_.compare_exchange_strong(expected, kProcessRunning) ? kSuccess : kErrorIllegalState;
}

}  // namespace amem::sim
