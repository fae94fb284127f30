// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Allocators of PyTorch's memory pools (torch.cuda.MemPool), for
// torch.cuda.memory.CUDAPluggableAllocator.
#include <array>

#include "api/calls.h"
#include "base/mutex.h"
#include "clients/tensors/memory_calls.h"

namespace amem {
namespace {

// PyTorch does not tell an allocator which pool it allocates for: each region has a function of its
// own, from this table.
struct Pools {
  Mutex mutex;
  std::array<Region, 0x40> regions AMEM_GUARDED_BY(mutex);
};

/// Never destroyed, because threads may allocate while the process ends.
Pools& pools() {
  static auto* const all = new Pools;
  return *all;
}

template <size_t kPool>
std::optional<Region> region_of_pool() {
  MutexLock lock(pools().mutex);
  return pools().regions[kPool];
}

/// The context of the device is current. PyTorch reports nullptr as a lack of memory.
template <size_t kPool>
void* allocate_for_pool(const char* call, ptrdiff_t size_bytes) {
  const NoCancellation no_cancellation;
  const std::optional<Region> region = tagged_region(region_of_pool<kPool>);
  DeviceAddress address = 0;
  if (region.has_value())
    (void)allocate_in(*region, call, &address, static_cast<size_t>(size_bytes));
  else if (const Result<Process*> process = active_process(); !process.ok())
    set_last_error(call, process.error());
  else
    keep_last_error(call, misuse_error("the pool has no tag: amemSetPool()"));
  return reinterpret_cast<void*>(address);
}

}  // namespace
}  // namespace amem

using namespace amem;

AMEM_API int amemSetPool(int pool, const char* tag, amemKind_t kind) {
  return result_of("amemSetPool", [&]() -> Status {
    const Region region = AMEM_TRY(region_of(tag, kind));
    MutexLock lock(pools().mutex);
    if (pool < 0 || static_cast<size_t>(pool) >= pools().regions.size())
      return misuse_error("there is no pool %d", pool);
    pools().regions[static_cast<size_t>(pool)] = region;
    return ok_status();
  });
}

AMEM_API void amemPoolFree(void* pointer, ptrdiff_t, int, void*) {
  const NoCancellation no_cancellation;
  (void)free_tagged("amemPoolFree", reinterpret_cast<DeviceAddress>(pointer));
}

#define AMEM_POOL(number)                                                         \
  AMEM_API void* amemPoolAllocate##number(ptrdiff_t size_bytes, int, void*) {     \
    return allocate_for_pool<0x##number>("amemPoolAllocate" #number, size_bytes); \
  }
// clang-format off
#define AMEM_POOLS(digit)                                                         \
  AMEM_POOL(digit##0) AMEM_POOL(digit##1) AMEM_POOL(digit##2) AMEM_POOL(digit##3) \
  AMEM_POOL(digit##4) AMEM_POOL(digit##5) AMEM_POOL(digit##6) AMEM_POOL(digit##7) \
  AMEM_POOL(digit##8) AMEM_POOL(digit##9) AMEM_POOL(digit##a) AMEM_POOL(digit##b) \
  AMEM_POOL(digit##c) AMEM_POOL(digit##d) AMEM_POOL(digit##e) AMEM_POOL(digit##f)
// clang-format on
AMEM_POOLS(0)
AMEM_POOLS(1)
AMEM_POOLS(2)
AMEM_POOLS(3)
