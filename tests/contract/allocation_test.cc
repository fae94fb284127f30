// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Physical memory and handles in one process.
#include <thread>

#include "tests/contract/gpu_test.h"

namespace amem::contract {
namespace {

class Allocation : public GpuTest {};

TEST_F(Allocation, HasAGranularityOfTwoMegabytes) {
  const CuAllocationProp wanted = properties();
  size_t recommended_bytes = 0;
  ASSERT_EQ(kSuccess, driver().cuMemGetAllocationGranularity(&recommended_bytes, &wanted,
                                                             kGranularityRecommended));

  EXPECT_EQ(2 * kMb, granularity());
  EXPECT_EQ(2 * kMb, recommended_bytes);
}

TEST_F(Allocation, RefusesASizeThatIsNoMultipleOfTheGranularity) {
  CuMemHandle handle = 0;
  const CuAllocationProp wanted = properties();

  EXPECT_EQ(kErrorInvalidValue, driver().cuMemCreate(&handle, granularity() + 4096, &wanted, 0));
  EXPECT_EQ(kErrorInvalidValue, driver().cuMemCreate(&handle, 0, &wanted, 0));
}

TEST_F(Allocation, RefusesMoreThanTheDeviceHas) {
  CuMemHandle handle = 0;
  size_t total_bytes = 0;
  const CuAllocationProp wanted = properties();
  ASSERT_EQ(kSuccess, driver().cuDeviceTotalMem(&total_bytes, 0));
  const size_t too_much_bytes = (total_bytes / granularity() + 1) * granularity();

  EXPECT_EQ(kErrorOutOfMemory, driver().cuMemCreate(&handle, too_much_bytes, &wanted, 0));
}

TEST_F(Allocation, TakesPhysicalMemoryWhenCreated) {
  const size_t before = free_bytes();

  const CuMemHandle handle = create(kWatchedBytes);

  EXPECT_TRUE(free_is(before - kWatchedBytes));
  EXPECT_EQ(kSuccess, driver().cuMemRelease(handle));
  EXPECT_TRUE(eventually([&] { return free_is(before); }));
}

TEST_F(Allocation, LivesInItsMappingAfterTheHandleIsReleased) {
  const size_t before = free_bytes();
  const CuDevicePtr address = allocate(kWatchedBytes);

  EXPECT_TRUE(free_is(before - kWatchedBytes));
  fill(address, 0x1234, kWatchedBytes);
  EXPECT_TRUE(filled(address, 0x1234, kWatchedBytes));

  free(address, kWatchedBytes);
  EXPECT_TRUE(eventually([&] { return free_is(before); }));
}

TEST_F(Allocation, LivesInItsHandleAfterItIsUnmapped) {
  const size_t before = free_bytes();
  const CuMemHandle handle = create(kWatchedBytes);
  const CuDevicePtr address = reserve(kWatchedBytes);
  map(address, kWatchedBytes, handle);
  fill(address, 0xabcd, kWatchedBytes);
  ASSERT_EQ(kSuccess, driver().cuMemUnmap(address, kWatchedBytes));

  EXPECT_TRUE(free_is(before - kWatchedBytes));
  map(address, kWatchedBytes, handle);
  EXPECT_TRUE(filled(address, 0xabcd, kWatchedBytes));

  EXPECT_EQ(kSuccess, driver().cuMemRelease(handle));
  free(address, kWatchedBytes);
  EXPECT_TRUE(eventually([&] { return free_is(before); }));
}

TEST_F(Allocation, LivesInADescriptorThatWasExported) {
  const size_t before = free_bytes();
  const CuMemHandle handle = create(kWatchedBytes);
  int fd = -1;
  ASSERT_EQ(kSuccess, driver().cuMemExportToShareableHandle(&fd, handle, kHandleTypePosixFd, 0));
  UniqueFd exported(fd);
  ASSERT_EQ(kSuccess, driver().cuMemRelease(handle));

  EXPECT_TRUE(free_is(before - kWatchedBytes));

  exported.reset();
  EXPECT_TRUE(eventually([&] { return free_is(before); }));
}

TEST_F(Allocation, ReadsZeroWhenItIsFresh) {
  const size_t size = 64 * kMb;
  for (int round = 0; round < 4; ++round) {
    const CuDevicePtr address = allocate(size);
    EXPECT_TRUE(filled(address, 0, size));
    fill(address, 0xffffffff, size);
    free(address, size);
  }
}

TEST_F(Allocation, IsRetainedByAnyAddressOfItsMapping) {
  const size_t size = 4 * granularity();
  const CuMemHandle handle = create(size);
  const CuDevicePtr address = reserve(size);
  map(address, size, handle);

  for (const size_t offset : {size_t{0}, size_t{1}, granularity() + 4096, size - 1}) {
    CuMemHandle retained = 0;
    ASSERT_EQ(kSuccess, driver().cuMemRetainAllocationHandle(
                            &retained, reinterpret_cast<void*>(address + offset)));
    EXPECT_EQ(handle, retained);
    EXPECT_EQ(kSuccess, driver().cuMemRelease(retained));
  }

  EXPECT_EQ(kSuccess, driver().cuMemRelease(handle));
  free(address, size);
}

TEST_F(Allocation, GivesItsHandleBackAfterTheLastReferenceWasReleased) {
  const size_t before = free_bytes();
  const CuMemHandle handle = create(kWatchedBytes);
  const CuDevicePtr address = reserve(kWatchedBytes);
  map(address, kWatchedBytes, handle);
  ASSERT_EQ(kSuccess, driver().cuMemRelease(handle));

  CuMemHandle revived = 0;
  ASSERT_EQ(kSuccess,
            driver().cuMemRetainAllocationHandle(&revived, reinterpret_cast<void*>(address)));

  EXPECT_EQ(handle, revived);
  free(address, kWatchedBytes);
  EXPECT_TRUE(free_is(before - kWatchedBytes)) << "the revived reference holds nothing";
  EXPECT_EQ(kSuccess, driver().cuMemRelease(revived));
  EXPECT_TRUE(eventually([&] { return free_is(before); }));
}

TEST_F(Allocation, HasNoHandleWhereNothingIsMapped) {
  const CuDevicePtr address = reserve(granularity());
  CuMemHandle handle = 0;

  EXPECT_EQ(kErrorInvalidValue,
            driver().cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(address)));

  EXPECT_EQ(kSuccess, driver().cuMemAddressFree(address, granularity()));
}

TEST_F(Allocation, OfPlainAllocationHasNoHandle) {
  CuDevicePtr address = 0;
  CuMemHandle handle = 0;
  ASSERT_EQ(kSuccess, driver().cuMemAlloc(&address, 8 * kMb));

  EXPECT_EQ(kErrorInvalidValue,
            driver().cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(address)));

  EXPECT_EQ(kSuccess, driver().cuMemFree(address));
}

TEST_F(Allocation, TellsTheProperties) {
  CuAllocationProp wanted = properties();
  int rdma = 0;
  ASSERT_EQ(kSuccess, driver().cuDeviceGetAttribute(&rdma, kAttributeGpuDirectRdmaWithVmm, 0));
  wanted.gpu_direct_rdma_capable = rdma != 0 ? 1 : 0;
  CuMemHandle handle = 0;
  ASSERT_EQ(kSuccess, driver().cuMemCreate(&handle, granularity(), &wanted, 0));

  CuAllocationProp told = {};
  ASSERT_EQ(kSuccess, driver().cuMemGetAllocationPropertiesFromHandle(&told, handle));

  EXPECT_EQ(wanted.type, told.type);
  EXPECT_EQ(wanted.requested_handle_types, told.requested_handle_types);
  EXPECT_EQ(wanted.location, told.location);
  EXPECT_EQ(wanted.gpu_direct_rdma_capable, told.gpu_direct_rdma_capable);
  EXPECT_EQ(kSuccess, driver().cuMemRelease(handle));
}

TEST_F(Allocation, IsExportedOnlyIfItWasCreatedForIt) {
  CuAllocationProp wanted = properties();
  wanted.requested_handle_types = kHandleTypeNone;
  CuMemHandle handle = 0;
  ASSERT_EQ(kSuccess, driver().cuMemCreate(&handle, granularity(), &wanted, 0));
  int fd = -1;

  EXPECT_EQ(kErrorInvalidValue,
            driver().cuMemExportToShareableHandle(&fd, handle, kHandleTypePosixFd, 0));

  EXPECT_EQ(kSuccess, driver().cuMemRelease(handle));
}

TEST_F(Allocation, IsNotExportedAsAnotherTypeThanItWasCreatedFor) {
  const CuMemHandle handle = create(granularity());
  char fabric[64] = {};  // CUmemFabricHandle

  EXPECT_EQ(kErrorInvalidValue,
            driver().cuMemExportToShareableHandle(fabric, handle, kHandleTypeFabric, 0));

  EXPECT_EQ(kSuccess, driver().cuMemRelease(handle));
}

TEST_F(Allocation, NoneIsReleasedAsHandleZero) {
  EXPECT_EQ(kErrorInvalidValue, driver().cuMemRelease(0));
}

// What a service thread does, which must not make a context current.
TEST_F(Allocation, NeedsNoCurrentContext) {
  std::thread([this] {
    CuContext current = context_;
    ASSERT_EQ(kSuccess, driver().cuCtxGetCurrent(&current));
    ASSERT_EQ(nullptr, current);
    const CuMemHandle handle = create(granularity());
    int fd = -1;
    EXPECT_EQ(kSuccess, driver().cuMemExportToShareableHandle(&fd, handle, kHandleTypePosixFd, 0));
    UniqueFd exported(fd);
    CuMemHandle imported = 0;
    EXPECT_EQ(kSuccess, driver().cuMemImportFromShareableHandle(
                            &imported, reinterpret_cast<void*>(static_cast<intptr_t>(fd)),
                            kHandleTypePosixFd));
    for (const CuMemHandle one : {handle, imported}) {
      const CuDevicePtr address = reserve(granularity());
      map(address, granularity(), one);
      EXPECT_EQ(kSuccess, driver().cuMemRelease(one));
      free(address, granularity());
    }
  }).join();
}

TEST_F(Allocation, OfAllIsNotToldWithoutAContext) {
  std::thread([] {
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    EXPECT_EQ(kErrorInvalidContext, driver().cuMemGetInfo(&free_bytes, &total_bytes));
  }).join();
}

TEST_F(Allocation, OfPlainMemoryNeedsAContext) {
  ASSERT_EQ(kSuccess, driver().cuCtxSetCurrent(nullptr));
  CuDevicePtr address = 0;

  EXPECT_EQ(kErrorInvalidContext, driver().cuMemAlloc(&address, granularity()));

  EXPECT_EQ(kSuccess, driver().cuCtxSetCurrent(context_));
}

}  // namespace
}  // namespace amem::contract
