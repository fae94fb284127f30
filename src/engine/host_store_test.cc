// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "engine/host_store.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <map>

namespace amem {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kNoLimit = 0;
constexpr int kDevice = 0;
constexpr unsigned kPortableForKernels = 3;  // CU_MEMHOSTREGISTER_PORTABLE, _DEVICEMAP

/// What the driver has registered, by address, and how it answers.
struct Registered {
  size_t size_bytes;
  unsigned flags;
};
struct {
  std::map<unsigned char*, Registered> ranges;
  unsigned char* last_asked;
  DriverResult result;
} g_driver;

bool is_mapped(unsigned char* page) {
  unsigned char resident;
  return mincore(page, 4096, &resident) == 0 || errno != ENOMEM;
}

class HostStoreTest : public testing::Test {
 protected:
  HostStoreTest() {
    g_driver = {{}, nullptr, driver_result::kSuccess};
    driver_.cuGetErrorName = [](DriverResult, const char** name) {
      *name = "CUDA_ERROR_OUT_OF_MEMORY";
      return driver_result::kSuccess;
    };
    driver_.cuMemHostRegister_v2 = [](void* base, size_t size_bytes, unsigned flags) {
      g_driver.last_asked = static_cast<unsigned char*>(base);
      if (g_driver.result != driver_result::kSuccess) return g_driver.result;
      g_driver.ranges[g_driver.last_asked] = {size_bytes, flags};
      return driver_result::kSuccess;
    };
    driver_.cuDeviceGetAttribute = [](int*, int, int) { return driver_result::kInvalidValue; };
    driver_.cuMemHostUnregister = [](void* base) {
      const bool known = g_driver.ranges.erase(static_cast<unsigned char*>(base)) == 1;
      return known ? driver_result::kSuccess : driver_result::kInvalidValue;
    };
  }
  static size_t registered_bytes() {
    size_t sum = 0;
    for (const auto& [base, range] : g_driver.ranges) sum += range.size_bytes;
    return sum;
  }
  /// Is all of the block in one registered range?
  static bool is_pinned(const unsigned char* block, size_t size_bytes) {
    for (const auto& [base, range] : g_driver.ranges)
      if (block >= base && block + size_bytes <= base + range.size_bytes) return true;
    return false;
  }
  /// Takes blocks of these sizes, and holds them against each other.
  static void expect_room(HostStore& store, const std::vector<size_t>& sizes) {
    std::map<unsigned char*, size_t> taken;
    for (const size_t size_bytes : sizes) {
      unsigned char* const block = store.take(size_bytes);
      ASSERT_NE(block, nullptr) << size_bytes << " bytes after " << taken.size() << " blocks";
      EXPECT_TRUE(is_pinned(block, size_bytes));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % 256, 0u);
      ASSERT_TRUE(taken.emplace(block, size_bytes).second);
    }
    for (auto at = taken.begin(); std::next(at) != taken.end(); ++at)
      EXPECT_LE(at->first + at->second, std::next(at)->first);
  }

  Driver driver_;
};

TEST_F(HostStoreTest, BlocksAreRoundedUpForCopies) {
  EXPECT_EQ(HostStore::block_bytes(0), 0u);
  EXPECT_EQ(HostStore::block_bytes(1), 256u);
  EXPECT_EQ(HostStore::block_bytes(256), 256u);
  EXPECT_EQ(HostStore::block_bytes(257), 512u);
}

TEST_F(HostStoreTest, NothingToKeepTakesNoMemory) {
  HostStore store(driver_, kNoLimit);

  EXPECT_TRUE(store.reserve(0, 0, kDevice).ok());

  EXPECT_EQ(store.capacity_bytes(), 0u);
  EXPECT_EQ(g_driver.last_asked, nullptr);
  EXPECT_EQ(store.take(1), nullptr);
}

TEST_F(HostStoreTest, ReservedRoomIsPinnedForEveryContextAndForKernels) {
  HostStore store(driver_, kNoLimit);

  ASSERT_TRUE(store.reserve(3 * kMiB + 256, 2 * kMiB, kDevice).ok());

  EXPECT_GE(store.capacity_bytes(), 3 * kMiB + 256);
  EXPECT_EQ(registered_bytes(), store.capacity_bytes());
  ASSERT_EQ(g_driver.ranges.size(), 1u);
  EXPECT_EQ(g_driver.ranges.begin()->second.flags, kPortableForKernels);
  expect_room(store, {2 * kMiB, 100, kMiB});
  EXPECT_EQ(store.used_bytes(), 3 * kMiB + 256);
}

TEST_F(HostStoreTest, BlocksKeepWhatIsWrittenToThem) {
  HostStore store(driver_, kNoLimit);
  ASSERT_TRUE(store.reserve(2 * kMiB, kMiB, kDevice).ok());
  unsigned char* const first = store.take(kMiB);
  unsigned char* const second = store.take(kMiB);

  memset(first, 0x11, kMiB);
  memset(second, 0x22, kMiB);

  EXPECT_EQ(first[0], 0x11);
  EXPECT_EQ(first[kMiB - 1], 0x11);
  EXPECT_EQ(second[0], 0x22);
  EXPECT_EQ(second[kMiB - 1], 0x22);
}

TEST_F(HostStoreTest, NextPauseUsesTheSameMemoryAgain) {
  HostStore store(driver_, kNoLimit);
  ASSERT_TRUE(store.reserve(70 * kMiB, 10 * kMiB, kDevice).ok());
  const size_t capacity_bytes = store.capacity_bytes();
  unsigned char* const first = store.take(10 * kMiB);
  g_driver.last_asked = nullptr;

  for (int pause = 0; pause < 3; ++pause) {
    ASSERT_TRUE(store.reserve(70 * kMiB, 10 * kMiB, kDevice).ok());
    EXPECT_EQ(store.used_bytes(), 0u);
    EXPECT_EQ(store.take(10 * kMiB), first);
  }

  EXPECT_EQ(store.capacity_bytes(), capacity_bytes);
  EXPECT_EQ(g_driver.last_asked, nullptr) << "registered anew";
}

TEST_F(HostStoreTest, GrowsByWhatIsMissingAndKeepsWhatItHas) {
  HostStore store(driver_, kNoLimit);
  ASSERT_TRUE(store.reserve(kMiB, kMiB, kDevice).ok());
  const size_t before = store.capacity_bytes();
  unsigned char* const base = g_driver.last_asked;

  ASSERT_TRUE(store.reserve(80 * kMiB, 40 * kMiB, kDevice).ok());

  EXPECT_EQ(g_driver.ranges.size(), 2u);
  EXPECT_EQ(g_driver.ranges.count(base), 1u);
  EXPECT_GE(store.capacity_bytes(), before + 16 * kMiB);
  EXPECT_EQ(registered_bytes(), store.capacity_bytes());
  expect_room(store, {40 * kMiB, 40 * kMiB});
}

// A block lies in one region: 120 MiB of blocks do not fit into two regions of 64.
TEST_F(HostStoreTest, ReservedRoomIsEnoughWhereverTheRegionsEnd) {
  HostStore store(driver_, kNoLimit);
  ASSERT_TRUE(store.reserve(kMiB, kMiB, kDevice).ok());
  ASSERT_TRUE(store.reserve(70 * kMiB, 2 * kMiB, kDevice).ok());
  ASSERT_EQ(store.capacity_bytes(), 128 * kMiB);

  ASSERT_TRUE(store.reserve(120 * kMiB, 40 * kMiB, kDevice).ok());

  expect_room(store, {40 * kMiB, 40 * kMiB, 40 * kMiB});
}

TEST_F(HostStoreTest, MoreThanWasReservedIsNotGiven) {
  HostStore store(driver_, kNoLimit);
  ASSERT_TRUE(store.reserve(kMiB, kMiB, kDevice).ok());

  EXPECT_EQ(store.take(store.capacity_bytes() + 1), nullptr);
  EXPECT_EQ(store.used_bytes(), 0u);
  EXPECT_NE(store.take(store.capacity_bytes()), nullptr);
  EXPECT_EQ(store.take(1), nullptr);
}

TEST_F(HostStoreTest, MemoryThatCannotBePinnedIsGivenBack) {
  HostStore store(driver_, kNoLimit);
  g_driver.result = driver_result::kOutOfMemory;

  const Status status = store.reserve(kMiB, kMiB, kDevice);

  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::driver);
  EXPECT_EQ(status.error().message,
            "cuMemHostRegister(64 MiB) failed: CUDA_ERROR_OUT_OF_MEMORY (2)");
  EXPECT_EQ(store.capacity_bytes(), 0u);
  ASSERT_NE(g_driver.last_asked, nullptr);
  EXPECT_FALSE(is_mapped(g_driver.last_asked));
}

TEST_F(HostStoreTest, RefusedGrowthLeavesWhatThereWas) {
  HostStore store(driver_, kNoLimit);
  ASSERT_TRUE(store.reserve(kMiB, kMiB, kDevice).ok());
  const size_t capacity_bytes = store.capacity_bytes();
  g_driver.result = driver_result::kOutOfMemory;

  EXPECT_FALSE(store.reserve(80 * kMiB, 80 * kMiB, kDevice).ok());

  EXPECT_EQ(store.capacity_bytes(), capacity_bytes);
  EXPECT_TRUE(store.reserve(kMiB, kMiB, kDevice).ok());
  expect_room(store, {kMiB});
}

TEST_F(HostStoreTest, MoreThanTheMachineHasIsRefusedBeforeTheKernelMustEndSomebody) {
  HostStore store(driver_, kNoLimit);

  const Status status = store.reserve(size_t{1} << 60, kMiB, kDevice);

  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::os);
  EXPECT_EQ(status.error().code, ENOMEM);
  EXPECT_NE(status.error().message.find("takes 1099511627776 MiB of host memory, and the machine"),
            std::string::npos)
      << status.error().message;
  EXPECT_EQ(store.capacity_bytes(), 0u);
  EXPECT_EQ(g_driver.last_asked, nullptr);
}

TEST_F(HostStoreTest, NeverBecomesLargerThanItsLimit) {
  HostStore store(driver_, 100 * kMiB);
  ASSERT_TRUE(store.reserve(kMiB, kMiB, kDevice).ok());
  ASSERT_TRUE(store.reserve(80 * kMiB, 40 * kMiB, kDevice).ok());
  expect_room(store, {40 * kMiB, 40 * kMiB});
  ASSERT_TRUE(store.reserve(100 * kMiB, 100 * kMiB, kDevice).ok());
  expect_room(store, {100 * kMiB});

  const Status status = store.reserve(101 * kMiB, kMiB, kDevice);

  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("AMEM_HOST_LIMIT allows 100 MiB: raise it"),
            std::string::npos)
      << status.error().message;
  EXPECT_EQ(store.capacity_bytes(), 100 * kMiB);
  EXPECT_TRUE(store.reserve(100 * kMiB, 100 * kMiB, kDevice).ok());
}

TEST_F(HostStoreTest, WhatItWouldRefuseIsKnownBefore) {
  HostStore store(driver_, 100 * kMiB);
  EXPECT_TRUE(store.check(80 * kMiB, 40 * kMiB).ok());
  ASSERT_TRUE(store.reserve(kMiB, kMiB, kDevice).ok());
  const size_t capacity_bytes = store.capacity_bytes();
  EXPECT_TRUE(store.check(80 * kMiB, 40 * kMiB).ok());
  EXPECT_TRUE(store.check(100 * kMiB, 100 * kMiB).ok()) << "in place of what there is";

  const Status checked = store.check(101 * kMiB, kMiB);
  EXPECT_EQ(store.capacity_bytes(), capacity_bytes) << "nothing was made or given back";
  const Status refused = store.reserve(101 * kMiB, kMiB, kDevice);

  ASSERT_TRUE(!checked.ok() && !refused.ok());
  EXPECT_EQ(checked.error().message, refused.error().message);
  EXPECT_FALSE(HostStore(driver_, kNoLimit).check(size_t{1} << 60, kMiB).ok());
}

// However close to the limit: pinning takes longer than everything else in a pause.
TEST_F(HostStoreTest, PauseAfterPauseUsesTheSameMemoryBelowALimitToo) {
  HostStore store(driver_, 100 * kMiB);
  ASSERT_TRUE(store.reserve(90 * kMiB, 60 * kMiB, kDevice).ok());
  expect_room(store, {60 * kMiB, 30 * kMiB});
  unsigned char* const first = g_driver.last_asked;
  for (int pause = 0; pause < 3; ++pause) {
    store.forget_blocks();
    ASSERT_TRUE(store.reserve(90 * kMiB, 60 * kMiB, kDevice).ok());
    expect_room(store, {60 * kMiB, 30 * kMiB});
  }
  EXPECT_EQ(g_driver.last_asked, first);
  EXPECT_EQ(g_driver.ranges.size(), 1u);
}

TEST_F(HostStoreTest, WhatIsMadeReadyIsUsedByTheNextPause) {
  HostStore store(driver_, kNoLimit);
  ASSERT_TRUE(store.prepare(70 * kMiB, kDevice).ok());
  EXPECT_EQ(registered_bytes(), store.capacity_bytes());
  g_driver.last_asked = nullptr;

  EXPECT_TRUE(store.prepare(60 * kMiB, kDevice).ok());
  ASSERT_TRUE(store.reserve(60 * kMiB, 10 * kMiB, kDevice).ok());

  EXPECT_EQ(g_driver.last_asked, nullptr) << "registered anew";
  expect_room(store, {10 * kMiB, 10 * kMiB, 40 * kMiB});
}

TEST_F(HostStoreTest, IsTrimmedOnlyWhileNothingIsKept) {
  HostStore store(driver_, kNoLimit);
  EXPECT_EQ(store.trim(), 0u);
  ASSERT_TRUE(store.reserve(kMiB, kMiB, kDevice).ok());
  unsigned char* const base = g_driver.last_asked;
  EXPECT_EQ(store.trim(), 0u);
  EXPECT_TRUE(is_mapped(base));

  store.forget_blocks();

  EXPECT_EQ(store.trim(), 64 * kMiB);
  EXPECT_TRUE(g_driver.ranges.empty());
  EXPECT_FALSE(is_mapped(base));
  EXPECT_EQ(store.device(), -1);
  ASSERT_TRUE(store.reserve(kMiB, kMiB, kDevice).ok());
  expect_room(store, {kMiB});
}

TEST_F(HostStoreTest, DestructorGivesEverythingBack) {
  std::vector<unsigned char*> bases;
  {
    HostStore store(driver_, kNoLimit);
    ASSERT_TRUE(store.reserve(kMiB, kMiB, kDevice).ok());
    ASSERT_TRUE(store.reserve(80 * kMiB, 40 * kMiB, kDevice).ok());
    for (const auto& [base, range] : g_driver.ranges) bases.push_back(base);
    ASSERT_EQ(bases.size(), 2u);
    EXPECT_TRUE(is_mapped(bases[0]));
  }
  EXPECT_TRUE(g_driver.ranges.empty());
  for (unsigned char* base : bases) EXPECT_FALSE(is_mapped(base));
}

}  // namespace
}  // namespace amem
