// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Devices and contexts.
#include <array>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/contract/gpu_test.h"

namespace amem::contract {
namespace {

class Contexts : public GpuTest {};

TEST_F(Contexts, ArePerThread) {
  std::thread([] {
    CuContext current = reinterpret_cast<CuContext>(1);
    CuDevice device = -1;
    EXPECT_EQ(kSuccess, driver().cuCtxGetCurrent(&current));
    EXPECT_EQ(nullptr, current);
    EXPECT_EQ(kErrorInvalidContext, driver().cuCtxGetDevice(&device));
    EXPECT_EQ(kErrorInvalidContext, driver().cuCtxSynchronize());
  }).join();
}

TEST_F(Contexts, AreAStack) {
  CuContext current = nullptr;
  ASSERT_EQ(kSuccess, driver().cuCtxPushCurrent(context_));
  ASSERT_EQ(kSuccess, driver().cuCtxPopCurrent(&current));

  EXPECT_EQ(context_, current);
  EXPECT_EQ(kSuccess, driver().cuCtxGetCurrent(&current));
  EXPECT_EQ(context_, current);
}

TEST_F(Contexts, OfADeviceIsOneWhileItIsRetained) {
  CuContext again = nullptr;
  unsigned flags = 0;
  int active = 0;
  ASSERT_EQ(kSuccess, driver().cuDevicePrimaryCtxRetain(&again, 0));

  EXPECT_EQ(context_, again);
  EXPECT_EQ(kSuccess, driver().cuDevicePrimaryCtxRelease(0));
  EXPECT_EQ(kSuccess, driver().cuDevicePrimaryCtxGetState(0, &flags, &active));
  EXPECT_EQ(1, active);
}

TEST_F(Contexts, OfADeviceThatWasResetIsTheSameWithAnotherId) {
  unsigned long long before = 0, after = 0;
  CuContext again = nullptr;
  ASSERT_EQ(kSuccess, driver().cuCtxGetId(context_, &before));

  ASSERT_EQ(kSuccess, driver().cuDevicePrimaryCtxReset(0));

  EXPECT_EQ(kErrorContextIsDestroyed, driver().cuCtxGetId(context_, &after));
  EXPECT_EQ(kErrorContextIsDestroyed, driver().cuCtxSynchronize());
  ASSERT_EQ(kSuccess, driver().cuDevicePrimaryCtxRetain(&again, 0));
  EXPECT_EQ(context_, again);
  ASSERT_EQ(kSuccess, driver().cuCtxGetId(again, &after));
  EXPECT_NE(before, after);
}

TEST_F(Contexts, ThatEndsLeavesMemoryOfHandlesAndTheirMappings) {
  const size_t size = granularity();
  const CuDevicePtr address = allocate(size);
  fill(address, 12, size);
  CuDevicePtr plain = 0;
  ASSERT_EQ(kSuccess, driver().cuMemAlloc(&plain, size));
  std::vector<char> host(size);
  ASSERT_EQ(kSuccess, driver().cuMemHostRegister(host.data(), size, 0));

  ASSERT_EQ(kSuccess, driver().cuDevicePrimaryCtxReset(0));
  ASSERT_EQ(kSuccess, driver().cuDevicePrimaryCtxRetain(&context_, 0));

  EXPECT_TRUE(filled(address, 12, size));
  EXPECT_EQ(kErrorInvalidValue, driver().cuMemFree(plain));
  EXPECT_EQ(kSuccess, driver().cuMemHostRegister(host.data(), size, 0)) << "it is not registered";
  EXPECT_EQ(kSuccess, driver().cuMemHostUnregister(host.data()));
  free(address, size);
}

TEST_F(Contexts, KnowTheirDevice) {
  CuDevice device = -1;

  EXPECT_EQ(kSuccess, driver().cuCtxGetDevice(&device));

  EXPECT_EQ(0, device);
}

TEST_F(Contexts, DevicesAreCountedAndChecked) {
  int count = 0;
  CuDevice device = -1;
  ASSERT_EQ(kSuccess, driver().cuDeviceGetCount(&count));

  EXPECT_GE(count, 1);
  EXPECT_EQ(kSuccess, driver().cuDeviceGet(&device, count - 1));
  EXPECT_EQ(kErrorInvalidDevice, driver().cuDeviceGet(&device, count));
}

TEST_F(Contexts, DevicesHaveDifferentUuids) {
  int count = 0;
  ASSERT_EQ(kSuccess, driver().cuDeviceGetCount(&count));
  std::set<std::array<char, 16>> uuids;
  for (CuDevice device = 0; device < count; ++device) {
    std::array<char, 16> uuid{};
    EXPECT_EQ(kSuccess, driver().cuDeviceGetUuid(uuid.data(), device));
    uuids.insert(uuid);
  }

  EXPECT_EQ(static_cast<size_t>(count), uuids.size());
  std::array<char, 16> uuid{};
  EXPECT_EQ(kErrorInvalidDevice, driver().cuDeviceGetUuid(uuid.data(), count));
}

TEST_F(Contexts, NothingIsReservedForPoolsAndGraphsThatAreNotUsed) {
  constexpr int kPoolReserved = 5, kGraphReserved = 2;
  CuMemPool pool = nullptr;
  uint64_t of_pool = 1, of_graphs = 1;
  ASSERT_EQ(kSuccess, driver().cuDeviceGetMemPool(&pool, 0));
  EXPECT_EQ(kSuccess, driver().cuMemPoolGetAttribute(pool, kPoolReserved, &of_pool));
  EXPECT_EQ(kSuccess, driver().cuDeviceGetGraphMemAttribute(0, kGraphReserved, &of_graphs));
  EXPECT_EQ(0U, of_pool);
  EXPECT_EQ(0U, of_graphs);
}

TEST_F(Contexts, DeviceOffersWhatNcclNeeds) {
  for (const int attribute : {kAttributeVirtualMemoryManagement, kAttributeHandleTypePosixFd,
                              kAttributeUnifiedAddressing}) {
    int value = 0;
    EXPECT_EQ(kSuccess, driver().cuDeviceGetAttribute(&value, attribute, 0));
    EXPECT_EQ(1, value) << "attribute " << attribute;
  }
}

TEST_F(Contexts, SecondDeviceReachesMemoryOfTheFirst) {
  int count = 0;
  ASSERT_EQ(kSuccess, driver().cuDeviceGetCount(&count));
  if (count < 2) GTEST_SKIP() << "there is one device only";
  int can = 0;
  ASSERT_EQ(kSuccess, driver().cuDeviceCanAccessPeer(&can, 1, 0));
  if (can == 0) GTEST_SKIP() << "device 1 cannot access device 0";
  const size_t size = granularity();
  const CuDevicePtr address = allocate(size);
  fill(address, 12, size);
  const CuAccessDesc both[] = {read_write(0), read_write(1)};
  ASSERT_EQ(kSuccess, driver().cuMemSetAccess(address, size, both, 2));
  CuContext second = nullptr;
  ASSERT_EQ(kSuccess, driver().cuDevicePrimaryCtxRetain(&second, 1));
  ASSERT_EQ(kSuccess, driver().cuCtxPushCurrent(second));

  EXPECT_TRUE(filled(address, 12, size));
  fill(address, 13, size);

  CuContext popped = nullptr;
  ASSERT_EQ(kSuccess, driver().cuCtxPopCurrent(&popped));
  EXPECT_EQ(kSuccess, driver().cuDevicePrimaryCtxRelease(1));
  EXPECT_TRUE(filled(address, 13, size));
  free(address, size);
}

TEST_F(Contexts, DevicesHaveNames) {
  char name[64] = "";
  EXPECT_EQ(kSuccess, driver().cuDeviceGetName(name, sizeof name, 0));
  EXPECT_NE(std::string(name), "");
  EXPECT_EQ(kErrorInvalidDevice, driver().cuDeviceGetName(name, sizeof name, 4711));
}

}  // namespace
}  // namespace amem::contract
