// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/tensors/region.h"

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace amem {
namespace {

struct OpenRegion {
  uint64_t number, thread;
  bool of_all;
  Region region;
};

struct Regions {
  Mutex mutex;
  std::vector<OpenRegion> open AMEM_GUARDED_BY(mutex);  ///< in the order of opening
  std::optional<Region> of_process AMEM_GUARDED_BY(mutex);
  uint64_t last AMEM_GUARDED_BY(mutex) = 0;
};

/// Never destroyed, because threads may allocate while the process ends.
Regions& regions() {
  static auto* const all = new Regions;
  return *all;
}
constinit std::atomic<bool> g_has_regions{false}, g_has_process_region{false};

/// Unlike pthread_self(3), no two threads of the process have the same.
uint64_t this_thread() {
  static constinit std::atomic<uint64_t> last{0};
  static constinit thread_local uint64_t number = 0;
  if (number == 0) number = ++last;
  return number;
}

template <typename Predicate>
bool close_newest(Predicate is_wanted) {
  Regions& all = regions();
  MutexLock lock(all.mutex);
  const auto found = std::find_if(all.open.rbegin(), all.open.rend(), is_wanted);
  if (found == all.open.rend()) return false;
  all.open.erase(std::next(found).base());
  g_has_regions = !all.open.empty() || all.of_process.has_value();
  return true;
}

}  // namespace

uint64_t open_region(Region region, Threads threads) {
  Regions& all = regions();
  MutexLock lock(all.mutex);
  g_has_regions = true;
  all.open.push_back({++all.last, this_thread(), threads == Threads::all, std::move(region)});
  return all.last;
}

bool close_region(uint64_t number) {
  return close_newest([&](const OpenRegion& each) { return each.number == number; });
}

bool close_region() {
  return close_newest([](auto& each) { return !each.of_all && each.thread == this_thread(); });
}

void set_process_region(std::optional<Region> region) {
  Regions& all = regions();
  MutexLock lock(all.mutex);
  all.of_process = std::move(region);
  g_has_process_region = all.of_process.has_value();
  g_has_regions = !all.open.empty() || all.of_process.has_value();
}

// Relaxed, here and below: a region of a thread is its own; when one for all threads begins for
// another thread is for the application to order.
std::optional<Region> current_region() {
  if (!g_has_regions.load(std::memory_order_relaxed)) return std::nullopt;
  Regions& all = regions();
  MutexLock lock(all.mutex);
  for (const bool own : {true, false})
    for (auto each = all.open.rbegin(); each != all.open.rend(); ++each)
      if (own ? each->thread == this_thread() : each->of_all) return each->region;
  return all.of_process;
}

std::optional<Region> current_region_of_pytorch() {
  return g_has_process_region.load(std::memory_order_relaxed) ? current_region() : std::nullopt;
}

}  // namespace amem
