// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "driver/work_contexts.h"

#include <atomic>

#include "base/mutex.h"

namespace amem {
namespace {

/// `device` is written before `context`, which is released: a reader that acquires it may load
/// `device` relaxed. A context that is noted stays in its place. The writer's own loads are relaxed
/// because of its mutex.
struct Noted {
  std::atomic<DriverContext> context{nullptr};
  std::atomic<int> device{-1};
};
constexpr size_t kMax = 64;
constinit Noted g_noted[kMax];
constinit std::atomic<bool> g_too_many{false};
constinit Mutex g_adding;  // one writer at a time

bool is_noted(DriverContext context) {
  for (const Noted& noted : g_noted)
    if (noted.context.load(std::memory_order_acquire) == context) return true;
  return false;
}

}  // namespace

void note_work_context(const Driver& driver) {
  DriverContext context = nullptr;
  int device = -1;
  if (driver.cuCtxGetCurrent(&context) != driver_result::kSuccess || context == nullptr ||
      is_noted(context) || driver.cuCtxGetDevice(&device) != driver_result::kSuccess)
    return;
  MutexLock lock(g_adding);
  if (is_noted(context)) return;
  for (Noted& noted : g_noted) {
    if (noted.context.load(std::memory_order_relaxed) != nullptr) continue;
    noted.device.store(device, std::memory_order_relaxed);
    noted.context.store(context, std::memory_order_release);
    return;
  }
  g_too_many = true;
}

Result<std::vector<DriverContext>> work_contexts_of(int device) {
  if (g_too_many)
    return make_error(ErrorKind::misuse, 0,
                      "work was launched in more than %zu contexts, which amem cannot wait for",
                      kMax);
  std::vector<DriverContext> found;
  for (const Noted& noted : g_noted)
    if (DriverContext const context = noted.context.load(std::memory_order_acquire);
        context != nullptr && noted.device.load(std::memory_order_relaxed) == device)
      found.push_back(context);
  return found;
}

void forget_work_context(DriverContext context) {
  MutexLock lock(g_adding);
  for (Noted& noted : g_noted)
    if (noted.context.load(std::memory_order_relaxed) == context) noted.context = nullptr;
}

}  // namespace amem
