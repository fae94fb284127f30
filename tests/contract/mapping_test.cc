// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Addresses, mappings and access.
#include "tests/contract/gpu_test.h"

namespace amem::contract {
namespace {

class Mapping : public GpuTest {};

TEST_F(Mapping, ReservesTheAddressThatIsAskedForIfItIsFree) {
  const CuDevicePtr first = reserve(granularity());
  ASSERT_EQ(kSuccess, driver().cuMemAddressFree(first, granularity()));
  CuDevicePtr again = 0;

  ASSERT_EQ(kSuccess, driver().cuMemAddressReserve(&again, granularity(), 0, first, 0));

  EXPECT_EQ(first, again);
  EXPECT_EQ(kSuccess, driver().cuMemAddressFree(again, granularity()));
}

TEST_F(Mapping, ReservesElsewhereIfTheAddressIsTaken) {
  const CuDevicePtr taken = reserve(granularity());
  CuDevicePtr other = 0;

  ASSERT_EQ(kSuccess, driver().cuMemAddressReserve(&other, granularity(), 0, taken, 0));

  EXPECT_NE(taken, other);
  EXPECT_EQ(kSuccess, driver().cuMemAddressFree(other, granularity()));
  EXPECT_EQ(kSuccess, driver().cuMemAddressFree(taken, granularity()));
}

TEST_F(Mapping, ReservesWithTheAlignmentThatIsAskedFor) {
  const size_t alignment = 512 * kMb;
  CuDevicePtr address = 0;

  ASSERT_EQ(kSuccess, driver().cuMemAddressReserve(&address, granularity(), alignment, 0, 0));

  EXPECT_EQ(0u, address % alignment);
  EXPECT_EQ(kSuccess, driver().cuMemAddressFree(address, granularity()));
}

TEST_F(Mapping, RefusesAnOffset) {
  const CuMemHandle handle = create(2 * granularity());
  const CuDevicePtr address = reserve(granularity());

  EXPECT_EQ(kErrorNotSupported,
            driver().cuMemMap(address, granularity(), granularity(), handle, 0));

  EXPECT_EQ(kSuccess, driver().cuMemAddressFree(address, granularity()));
  EXPECT_EQ(kSuccess, driver().cuMemRelease(handle));
}

TEST_F(Mapping, RefusesAPartOfAnAllocation) {
  const CuMemHandle handle = create(2 * granularity());
  const CuDevicePtr address = reserve(2 * granularity());

  EXPECT_EQ(kErrorNotSupported, driver().cuMemMap(address, granularity(), 0, handle, 0));

  EXPECT_EQ(kSuccess, driver().cuMemAddressFree(address, 2 * granularity()));
  EXPECT_EQ(kSuccess, driver().cuMemRelease(handle));
}

TEST_F(Mapping, RefusesUnalignedAddressesAndSizes) {
  const CuMemHandle handle = create(granularity());
  const CuDevicePtr address = reserve(2 * granularity());

  EXPECT_EQ(kErrorInvalidValue, driver().cuMemMap(address + 4096, granularity(), 0, handle, 0));
  // Another size than the allocation's is refused as such before its alignment is looked at.
  EXPECT_EQ(kErrorNotSupported, driver().cuMemMap(address, granularity() - 4096, 0, handle, 0));

  EXPECT_EQ(kSuccess, driver().cuMemAddressFree(address, 2 * granularity()));
  EXPECT_EQ(kSuccess, driver().cuMemRelease(handle));
}

TEST_F(Mapping, RefusesAnAddressThatIsMapped) {
  const CuDevicePtr address = allocate(granularity());
  const CuMemHandle other = create(granularity());

  EXPECT_EQ(kErrorInvalidValue, driver().cuMemMap(address, granularity(), 0, other, 0));

  EXPECT_EQ(kSuccess, driver().cuMemRelease(other));
  free(address, granularity());
}

TEST_F(Mapping, RefusesAnAddressThatIsNotReserved) {
  const CuDevicePtr address = reserve(granularity());
  ASSERT_EQ(kSuccess, driver().cuMemAddressFree(address, granularity()));
  const CuMemHandle handle = create(granularity());

  EXPECT_EQ(kErrorInvalidValue, driver().cuMemMap(address, granularity(), 0, handle, 0));

  EXPECT_EQ(kSuccess, driver().cuMemRelease(handle));
}

TEST_F(Mapping, OfOneHandleAtTwoAddressesShowsTheSameBytes) {
  const size_t size = 2 * granularity();
  const CuMemHandle handle = create(size);
  const CuDevicePtr first = reserve(size);
  const CuDevicePtr second = reserve(size);
  map(first, size, handle);
  map(second, size, handle);

  fill(first, 77, size);

  EXPECT_TRUE(filled(second, 77, size));
  EXPECT_EQ(kSuccess, driver().cuMemRelease(handle));
  free(first, size);
  EXPECT_TRUE(filled(second, 77, size));
  free(second, size);
}

TEST_F(Mapping, AtTheSameAddressShowsTheNewMemory) {
  const size_t size = 4 * granularity();
  const CuMemHandle first = create(size);
  const CuMemHandle second = create(size);
  const CuDevicePtr address = reserve(size);
  map(address, size, first);
  fill(address, 1, size);
  ASSERT_EQ(kSuccess, driver().cuMemUnmap(address, size));
  map(address, size, second);
  fill(address, 2, size);
  ASSERT_EQ(kSuccess, driver().cuMemUnmap(address, size));

  map(address, size, first);

  EXPECT_TRUE(filled(address, 1, size));
  EXPECT_EQ(kSuccess, driver().cuMemRelease(first));
  EXPECT_EQ(kSuccess, driver().cuMemRelease(second));
  free(address, size);
}

TEST_F(Mapping, TellsItsRangeForAnyAddress) {
  const size_t size = 3 * granularity();
  const CuDevicePtr address = allocate(size);
  CuDevicePtr base = 0;
  size_t found_bytes = 0;

  ASSERT_EQ(kSuccess, driver().cuMemGetAddressRange(&base, &found_bytes, address + size - 1));

  EXPECT_EQ(address, base);
  EXPECT_EQ(size, found_bytes);
  free(address, size);
}

TEST_F(Mapping, TellsItsRangeInParts) {
  const CuDevicePtr address = allocate(granularity());
  CuDevicePtr base = 0;
  size_t found_bytes = 0;

  EXPECT_EQ(kSuccess, driver().cuMemGetAddressRange(nullptr, &found_bytes, address));
  EXPECT_EQ(kSuccess, driver().cuMemGetAddressRange(&base, nullptr, address));

  EXPECT_EQ(granularity(), found_bytes);
  EXPECT_EQ(address, base);
  free(address, granularity());
}

TEST_F(Mapping, TellsItsRangeToNobodyAsWell) {
  const CuDevicePtr address = allocate(granularity());

  EXPECT_EQ(kSuccess, driver().cuMemGetAddressRange(nullptr, nullptr, address));

  free(address, granularity());
}

TEST_F(Mapping, HasNoRangeWhereAddressesAreOnlyReserved) {
  const CuDevicePtr address = reserve(granularity());
  CuDevicePtr base = 0;
  size_t found_bytes = 0;

  EXPECT_EQ(kErrorNotFound, driver().cuMemGetAddressRange(&base, &found_bytes, address));

  EXPECT_EQ(kSuccess, driver().cuMemAddressFree(address, granularity()));
}

TEST_F(Mapping, TellsTheAccessOfALocation) {
  const CuMemHandle handle = create(granularity());
  const CuDevicePtr address = reserve(granularity());
  ASSERT_EQ(kSuccess, driver().cuMemMap(address, granularity(), 0, handle, 0));
  const CuLocation here{kLocationDevice, 0};
  unsigned long long flags = 99;

  EXPECT_EQ(kSuccess, driver().cuMemGetAccess(&flags, &here, address));
  EXPECT_EQ(static_cast<unsigned>(kAccessNone), flags);
  const CuAccessDesc access = read_write();
  ASSERT_EQ(kSuccess, driver().cuMemSetAccess(address, granularity(), &access, 1));
  EXPECT_EQ(kSuccess, driver().cuMemGetAccess(&flags, &here, address));
  EXPECT_EQ(static_cast<unsigned>(kAccessReadWrite), flags);

  EXPECT_EQ(kSuccess, driver().cuMemRelease(handle));
  free(address, granularity());
}

TEST_F(Mapping, LosesItsAccessWhenItIsUnmapped) {
  const CuMemHandle handle = create(granularity());
  const CuDevicePtr address = reserve(granularity());
  map(address, granularity(), handle);
  ASSERT_EQ(kSuccess, driver().cuMemUnmap(address, granularity()));

  ASSERT_EQ(kSuccess, driver().cuMemMap(address, granularity(), 0, handle, 0));

  const CuLocation here{kLocationDevice, 0};
  unsigned long long flags = 99;
  EXPECT_EQ(kSuccess, driver().cuMemGetAccess(&flags, &here, address));
  EXPECT_EQ(static_cast<unsigned>(kAccessNone), flags);
  EXPECT_EQ(kSuccess, driver().cuMemRelease(handle));
  free(address, granularity());
}

TEST_F(Mapping, KeepsItsAddressesFromBeingFreed) {
  const CuDevicePtr address = allocate(granularity());

  EXPECT_EQ(kErrorInvalidValue, driver().cuMemAddressFree(address, granularity()));

  free(address, granularity());
}

TEST_F(Mapping, IsNotUnmappedInPart) {
  const CuDevicePtr address = allocate(2 * granularity());

  EXPECT_EQ(kErrorInvalidValue, driver().cuMemUnmap(address, granularity()));
  EXPECT_EQ(kErrorInvalidValue, driver().cuMemUnmap(address + granularity(), granularity()));

  free(address, 2 * granularity());
}

TEST_F(Mapping, GivesAUsableDmaBufDescriptor) {
  int supported = 0;
  ASSERT_EQ(kSuccess, driver().cuDeviceGetAttribute(&supported, kAttributeDmaBuf, 0));
  if (supported == 0) GTEST_SKIP() << "this device has no dma-buf support";
  const CuDevicePtr address = allocate(granularity());
  int fd = -1;

  EXPECT_EQ(kSuccess, driver().cuMemGetHandleForAddressRange(&fd, address, granularity(),
                                                             kRangeHandleDmaBufFd, 0));

  EXPECT_GE(fd, 0);
  UniqueFd closed(fd);
  free(address, granularity());
}

TEST_F(Mapping, IsHeldByItsDmaBufDescriptor) {
  int supported = 0;
  ASSERT_EQ(kSuccess, driver().cuDeviceGetAttribute(&supported, kAttributeDmaBuf, 0));
  if (supported == 0) GTEST_SKIP() << "this device has no dma-buf support";
  const size_t before = free_bytes();
  const CuDevicePtr address = allocate(kWatchedBytes);
  int fd = -1;
  ASSERT_EQ(kSuccess, driver().cuMemGetHandleForAddressRange(&fd, address, kWatchedBytes,
                                                             kRangeHandleDmaBufFd, 0));
  UniqueFd registered(fd);
  free(address, kWatchedBytes);

  EXPECT_TRUE(free_is(before - kWatchedBytes));

  registered.reset();
  EXPECT_TRUE(eventually([&] { return free_is(before); }));
}

}  // namespace
}  // namespace amem::contract
