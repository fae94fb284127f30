// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// ncclCommSuspend() and ncclCommResume() of buffers in slabs, call by call.
#include <gtest/gtest.h>

#include "clients/nccl/driver_calls/entry_points.h"
#include "clients/nccl/driver_calls/testdata/slab_fixture.h"

namespace amem {
namespace {

/// ncclCommSuspend() and ncclCommResume() (mem_manager.cc@v2.30.7-1).
class SuspendCalls : public SlabCalls {
 protected:
  void suspend(const Buffer& buffer) {
    EXPECT_EQ(hooked_cuMemUnmap(buffer.address, buffer.size_bytes), 0);
    EXPECT_EQ(hooked_cuMemRelease(buffer.handle), 0);
  }
  /// Without a query of the granularity and without a reservation.
  DriverResult resume(Buffer& buffer, size_t size_bytes) {
    buffer.handle = create(size_bytes);
    const DriverResult mapped = map(buffer);
    if (mapped != driver_result::kSuccess) return mapped;
    const Access access{{kLocationDevice, 0}, 3};
    return hooked_cuMemSetAccess(buffer.address, buffer.size_bytes, &access, 1);
  }
};

TEST_F(SuspendCalls, NewMemoryReturnsToTheSlabAndIsZero) {
  Buffer buffer = allocate(kHalfSlab);
  const Buffer other = allocate(kHalfSlab);
  suspend(buffer);

  EXPECT_EQ(resume(buffer, kHalfSlab), 0);

  EXPECT_EQ(g_fake.zeroed, std::vector{buffer.address});
  EXPECT_EQ(g_fake.objects.size(), 1u) << "its own object was not released";
  DeviceAddress base = 0;
  EXPECT_EQ(hooked_cuMemGetAddressRange_v2(&base, nullptr, buffer.address + 5), 0);
  EXPECT_EQ(base, buffer.address);
  free(buffer);
  free(other);
  expect_nothing_left();
}

// Its size is no multiple of the driver's granularity, and its slab holds nothing else.
TEST_F(SuspendCalls, SmallBufferAloneInItsSlabReturns) {
  Buffer buffer = allocate(1000);
  suspend(buffer);

  EXPECT_EQ(resume(buffer, kSlotBytes), 0);

  free(buffer);
  expect_nothing_left();
}

TEST_F(SuspendCalls, NothingElseGetsTheAddressMeanwhile) {
  Buffer buffer = allocate(kHalfSlab);
  const Buffer other = allocate(kHalfSlab);
  suspend(buffer);

  const Buffer next = allocate(kHalfSlab);

  EXPECT_NE(next.address, buffer.address);
  EXPECT_EQ(resume(buffer, kHalfSlab), 0);
  for (const Buffer& each : {buffer, other, next}) free(each);
  expect_nothing_left();
}

TEST_F(SuspendCalls, AnotherSizeIsRefused) {
  const Buffer first = allocate(1000);
  Buffer buffer = allocate(2 * kSlotBytes);
  suspend(buffer);

  EXPECT_EQ(resume(buffer, kSlotBytes), driver_result::kInvalidValue);

  free(first);
  EXPECT_EQ(hooked_cuMemRelease(buffer.handle), 0);
  EXPECT_EQ(hooked_cuMemAddressFree(buffer.address, buffer.size_bytes), 0);
  expect_nothing_left();
}

TEST_F(SuspendCalls, AddressThatIsFreedWithoutAResumeIsGivenOutAgain) {
  const Buffer buffer = allocate(kHalfSlab), other = allocate(kHalfSlab);
  suspend(buffer);
  EXPECT_EQ(hooked_cuMemAddressFree(buffer.address, buffer.size_bytes), 0);

  const Buffer next = allocate(kHalfSlab);

  EXPECT_EQ(next.address, buffer.address);
  free(next);
  free(other);
  expect_nothing_left();
}

// The last import of a slab goes and comes back: amem places the slab where it was.
TEST_F(SuspendCalls, ImportReturnsToItsAddress) {
  ask_granularity();
  Buffer buffer = import_and_map(kSlotBytes);
  suspend(buffer);
  EXPECT_TRUE(g_fake.objects.empty());
  buffer.handle = import(kSlotBytes);

  EXPECT_EQ(map(buffer), 0);

  EXPECT_EQ(g_fake.mapped.count(buffer.address - kSlotBytes), 1u);
  const DeviceAddress next = reserve(kSlotBytes);
  EXPECT_EQ(g_fake.reserved.count(next), 1u) << "it is an address of the import's slab";
  EXPECT_EQ(hooked_cuMemAddressFree(next, kSlotBytes), 0);
  free(buffer);
  expect_nothing_left();
}

TEST_F(SuspendCalls, ImportOfAnotherPlaceDoesNotReturn) {
  Buffer buffer = import_and_map(kSlotBytes);
  suspend(buffer);
  buffer.handle = import(3 * kSlotBytes);

  EXPECT_EQ(map(buffer), driver_result::kNotSupported);
}

}  // namespace
}  // namespace amem
