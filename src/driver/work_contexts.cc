// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "driver/work_contexts.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <utility>

#include "base/mutex.h"
#include "base/thread_value.h"

namespace amem {
namespace {

struct WorkContexts {
  Mutex mutex;
  std::map<DriverContext, int> devices AMEM_GUARDED_BY(mutex);
};

/// Never destroyed: threads launch work while the process exits.
WorkContexts& contexts() {
  static auto* const all = new WorkContexts;
  return *all;
}

/// What the calling thread has noted, unless a context has been forgotten since: a thread may
/// launch work on each device in turn. Not thread_local: a library that is loaded late has little
/// room for such variables.
struct Noted {
  std::array<DriverContext, 16> contexts{};
  size_t next = 0;
  uint64_t forgotten = 0;
};
constinit std::atomic<uint64_t> g_forgotten{0};

}  // namespace

void note_work_context(const Driver& driver) {
  const uint64_t forgotten = g_forgotten;  // before the context is noted
  Noted& noted = thread_value<Noted>();
  DriverContext context = nullptr;
  int device = -1;
  if (driver.cuCtxGetCurrent(&context) != driver_result::kSuccess || context == nullptr ||
      (forgotten == noted.forgotten &&
       std::find(noted.contexts.begin(), noted.contexts.end(), context) != noted.contexts.end()) ||
      driver.cuCtxGetDevice(&device) != driver_result::kSuccess)
    return;
  MutexLock lock(contexts().mutex);
  contexts().devices[context] = device;
  if (std::exchange(noted.forgotten, forgotten) != forgotten) noted.contexts = {};
  noted.contexts[noted.next++ % noted.contexts.size()] = context;
}

std::vector<DriverContext> work_contexts_of(int device) {
  std::vector<DriverContext> found;
  MutexLock lock(contexts().mutex);
  for (const auto& [context, its_device] : contexts().devices)
    if (its_device == device) found.push_back(context);
  return found;
}

void forget_work_context(DriverContext context) {
  MutexLock lock(contexts().mutex);
  contexts().devices.erase(context);
  ++g_forgotten;
}

}  // namespace amem
