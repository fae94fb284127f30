// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Calls on memory that a pause or resume copies, beyond the deadline.
#include "clients/nccl/driver_calls/testdata/slab_fixture.h"

namespace amem {
namespace {

/// The parameter: buffers are in slabs.
class CopiedMemory : public SlabCalls, public testing::WithParamInterface<bool> {
 protected:
  CopiedMemory() : SlabCalls({.timeout_ms = 1, .slabs = GetParam()}) {}
  void set_copying(const Buffer& buffer, int copies) {
    MutexLock lock(registry_.mutex);
    registry_.backing_of(*registry_.find_handle(buffer.handle)).copying = copies;
  }
};

TEST_P(CopiedMemory, StaysMappedAndItsCallsFail) {
  const Buffer buffer = allocate(kDriverUnit);
  const size_t mapped = g_fake.mapped.size();
  const Access access{{kLocationDevice, 0}, 3};
  set_copying(buffer, 1);

  EXPECT_EQ(hooked_cuMemUnmap(buffer.address, buffer.size_bytes), driver_result::kNotReady);
  EXPECT_EQ(hooked_cuMemSetAccess(buffer.address, buffer.size_bytes, &access, 1),
            driver_result::kNotReady);
  EXPECT_NE(hooked_cuMemRelease(buffer.handle), driver_result::kSuccess);
  EXPECT_NE(hooked_cuMemMap(buffer.address + kMiB * 512, buffer.size_bytes, 0, buffer.handle, 0),
            driver_result::kSuccess);
  EXPECT_NE(hooked_cuMulticastBindMem(1, 0, buffer.handle, 0, buffer.size_bytes, 0),
            driver_result::kSuccess);

  EXPECT_EQ(g_fake.mapped.size(), mapped);
  EXPECT_EQ(g_fake.objects.size(), 1u);
  {
    MutexLock lock(registry_.mutex);
    const Allocation& allocation = *registry_.find_handle(buffer.handle);
    EXPECT_EQ(allocation.handle_references, 1);
    EXPECT_EQ(allocation.mappings, std::vector{buffer.address});
  }
  set_copying(buffer, 0);
  free(buffer);
  expect_nothing_left();
}

// A range with several mappings, of which the last is copied.
TEST_P(CopiedMemory, RangeWaitsForAllMemoryInIt) {
  const Buffer first = allocate(kDriverUnit), last = allocate(kDriverUnit);
  set_copying(last, 1);
  const size_t both = last.address + last.size_bytes - first.address;

  EXPECT_EQ(hooked_cuMemUnmap(first.address, both), driver_result::kNotReady);

  set_copying(last, 0);
  free(first);
  free(last);
  expect_nothing_left();
}

INSTANTIATE_TEST_SUITE_P(Buffers, CopiedMemory, testing::Bool(), [](const auto& in_slabs) {
  return std::string(in_slabs.param ? "InSlabs" : "Alone");
});

}  // namespace
}  // namespace amem
