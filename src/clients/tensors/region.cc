// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/tensors/region.h"

#include <atomic>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/thread_value.h"

namespace amem {
namespace {

struct ThreadRegions {
  std::vector<Region> open;
};

struct ProcessRegion {
  Mutex mutex;
  std::optional<Region> region AMEM_GUARDED_BY(mutex);
};

/// Never destroyed, because threads may allocate while the process ends.
ProcessRegion& process_region() {
  static auto* const region = new ProcessRegion;
  return *region;
}
constinit std::atomic<bool> g_has_process_region{false};

}  // namespace

void open_region(Region region) { thread_value<ThreadRegions>().open.push_back(std::move(region)); }

bool close_region() {
  std::vector<Region>& open = thread_value<ThreadRegions>().open;
  if (open.empty()) return false;
  open.pop_back();
  return true;
}

void set_process_region(std::optional<Region> region) {
  ProcessRegion& of_process = process_region();
  MutexLock lock(of_process.mutex);
  of_process.region = std::move(region);
  g_has_process_region = of_process.region.has_value();
}

std::optional<Region> current_region() {
  const std::vector<Region>& open = thread_value<ThreadRegions>().open;
  if (!open.empty()) return open.back();
  if (!g_has_process_region.load(std::memory_order_relaxed)) return std::nullopt;
  ProcessRegion& of_process = process_region();
  MutexLock lock(of_process.mutex);
  return of_process.region;
}

}  // namespace amem
