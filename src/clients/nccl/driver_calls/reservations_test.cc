// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// What NCCL gives back of the addresses that it had in slabs, and when.
#include <gtest/gtest.h>

#include "clients/nccl/driver_calls/entry_points.h"
#include "clients/nccl/driver_calls/testdata/slab_fixture.h"

namespace amem {
namespace {

using Reservations = SlabCalls;

// One thread frees an import, and another imports the same memory in between.
TEST_F(Reservations, OneIsGivenBackWhileTheNextOwnerOfItsAddressIsMapped) {
  const Buffer first = import_and_map(0), other = import_and_map(kSlotBytes);
  EXPECT_EQ(hooked_cuMemUnmap(first.address, first.size_bytes), 0);
  EXPECT_EQ(hooked_cuMemRelease(first.handle), 0);
  const Buffer next = import_and_map(0);
  ASSERT_EQ(next.address, first.address);

  EXPECT_EQ(hooked_cuMemAddressFree(first.address, first.size_bytes), 0);

  EXPECT_EQ(hooked_cuMemAddressFree(next.address, next.size_bytes), driver_result::kInvalidValue)
      << "the one of what is mapped there";
  free(next);
  free(other);
  expect_nothing_left();
}

TEST_F(Reservations, LastOneIsRefusedUntilItsAddressIsUnmapped) {
  const Buffer buffer = allocate(kHalfSlab), other = allocate(kHalfSlab);

  EXPECT_EQ(hooked_cuMemAddressFree(buffer.address, buffer.size_bytes),
            driver_result::kInvalidValue)
      << "the other address has one too, which does not count here";

  free(buffer);
  free(other);
  expect_nothing_left();
}

TEST_F(Reservations, OneThatNobodyHasIsTakenFromNobody) {
  const Buffer buffer = allocate(1000);
  EXPECT_EQ(hooked_cuMemUnmap(buffer.address, buffer.size_bytes), 0);
  EXPECT_EQ(hooked_cuMemRelease(buffer.handle), 0);

  EXPECT_EQ(hooked_cuMemAddressFree(buffer.address + kSlotBytes, kSlotBytes), 0);
  EXPECT_EQ(g_fake.reserved.size(), 1u) << "the buffer's address is still NCCL's";

  EXPECT_EQ(hooked_cuMemAddressFree(buffer.address, buffer.size_bytes), 0);
  expect_nothing_left();
}

}  // namespace
}  // namespace amem
