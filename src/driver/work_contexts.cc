// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "driver/work_contexts.h"

#include <atomic>
#include <map>

#include "base/mutex.h"

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

/// What the calling thread has noted last, unless a context has been forgotten since.
struct Last {
  DriverContext context = nullptr;
  uint64_t forgotten = 0;
};
constinit thread_local Last t_last;
constinit std::atomic<uint64_t> g_forgotten{0};

}  // namespace

void note_work_context(const Driver& driver) {
  const uint64_t forgotten = g_forgotten;  // before the context is noted
  DriverContext context = nullptr;
  int device = -1;
  if (driver.cuCtxGetCurrent(&context) != driver_result::kSuccess || context == nullptr ||
      (context == t_last.context && forgotten == t_last.forgotten) ||
      driver.cuCtxGetDevice(&device) != driver_result::kSuccess)
    return;
  MutexLock lock(contexts().mutex);
  contexts().devices[context] = device;
  t_last = {context, forgotten};
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
