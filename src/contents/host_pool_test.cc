// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "contents/host_pool.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>

#include "base/file_lock.h"
#include "base/user_folder.h"
#include "contents/host_reservation.h"
#include "tests/support/file_calls.h"

namespace amem {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kNoLimit = 0;
constexpr int kDevice = 0;
constexpr size_t kGranule = 4096;
constexpr unsigned kPortable = 1;

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

class HostPoolTest : public testing::Test {
 protected:
  HostPoolTest() {
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
  /// Is all of the extent in one registered range?
  static bool is_pinned(const HostExtent& extent) {
    for (const auto& [base, range] : g_driver.ranges)
      if (extent.base >= base && extent.end() <= base + range.size_bytes) return true;
    return false;
  }
  static size_t size_of(const HostBlock& block) {
    size_t sum = 0;
    for (const HostExtent& extent : *block) sum += extent.size_bytes;
    return sum;
  }
  /// Takes blocks of these sizes, and holds them against each other.
  static std::vector<HostBlock> expect_room(HostPool& pool, const std::vector<size_t>& sizes) {
    std::vector<HostBlock> blocks;
    std::map<unsigned char*, size_t> taken;
    for (const size_t size_bytes : sizes) {
      blocks.push_back(pool.take(size_bytes));
      if (blocks.back() == nullptr) {
        ADD_FAILURE() << size_bytes << " bytes after " << blocks.size() - 1 << " blocks";
        return blocks;
      }
      EXPECT_EQ(size_of(blocks.back()), HostPool::block_bytes(size_bytes));
      for (const HostExtent& extent : *blocks.back()) {
        EXPECT_TRUE(is_pinned(extent));
        EXPECT_EQ(reinterpret_cast<uintptr_t>(extent.base) % kGranule, 0u);
        EXPECT_TRUE(taken.emplace(extent.base, extent.size_bytes).second);
      }
    }
    for (auto at = taken.begin(); std::next(at) != taken.end(); ++at)
      EXPECT_LE(at->first + at->second, std::next(at)->first);
    return blocks;
  }

  Driver driver_;
};

TEST_F(HostPoolTest, BlocksAreRoundedUpForCopies) {
  EXPECT_EQ(HostPool::block_bytes(0), 0u);
  EXPECT_EQ(HostPool::block_bytes(1), kGranule);
  EXPECT_EQ(HostPool::block_bytes(kGranule), kGranule);
  EXPECT_EQ(HostPool::block_bytes(kGranule + 1), 2 * kGranule);
}

TEST_F(HostPoolTest, NothingToKeepTakesNoMemory) {
  HostPool pool(driver_, kNoLimit);

  EXPECT_TRUE(pool.reserve(0, kDevice).ok());

  EXPECT_EQ(pool.capacity_bytes(), 0u);
  EXPECT_EQ(g_driver.last_asked, nullptr);
  EXPECT_EQ(pool.take(1), nullptr);
}

TEST_F(HostPoolTest, IsPinnedForEveryContext) {
  HostPool pool(driver_, kNoLimit);

  ASSERT_TRUE(pool.reserve(3 * kMiB + kGranule, kDevice).ok());

  EXPECT_GE(pool.capacity_bytes(), 3 * kMiB + kGranule);
  EXPECT_EQ(registered_bytes(), pool.capacity_bytes());
  ASSERT_EQ(g_driver.ranges.size(), 1u);
  EXPECT_EQ(g_driver.ranges.begin()->second.flags, kPortable);
  const auto blocks = expect_room(pool, {2 * kMiB, 100, kMiB});
  EXPECT_EQ(pool.free_bytes(), pool.capacity_bytes() - 3 * kMiB - kGranule);
}

TEST_F(HostPoolTest, BlocksKeepWhatIsWrittenToThem) {
  HostPool pool(driver_, kNoLimit);
  ASSERT_TRUE(pool.reserve(2 * kMiB, kDevice).ok());
  const HostBlock first = pool.take(kMiB), second = pool.take(kMiB);

  memset(first->front().base, 0x11, kMiB);
  memset(second->front().base, 0x22, kMiB);

  EXPECT_EQ(first->front().base[0], 0x11);
  EXPECT_EQ(first->front().base[kMiB - 1], 0x11);
  EXPECT_EQ(second->front().base[0], 0x22);
}

// Pinned pages are not copied on write: parent and child would write into the same page, or the GPU
// into that of the other one.
TEST_F(HostPoolTest, IsNotInheritedByAForkedChild) {
  HostPool pool(driver_, kNoLimit);
  ASSERT_TRUE(pool.reserve(kMiB, kDevice).ok());
  unsigned char* const base = g_driver.last_asked;
  ASSERT_TRUE(is_mapped(base));

  const pid_t child = fork();
  if (child == 0) _exit(is_mapped(base) || is_mapped(base + kMiB - kGranule) ? 1 : 0);

  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// Pinning takes longer than everything else in a pause.
TEST_F(HostPoolTest, NextPauseUsesTheSameMemoryAgain) {
  HostPool pool(driver_, 100 * kMiB);
  ASSERT_TRUE(pool.reserve(90 * kMiB, kDevice).ok());
  const unsigned char* const first = g_driver.last_asked;
  for (int pause = 0; pause < 3; ++pause) {
    ASSERT_TRUE(pool.reserve(90 * kMiB, kDevice).ok());
    const auto blocks = expect_room(pool, {60 * kMiB, 30 * kMiB});
    EXPECT_EQ(blocks[0]->size() + blocks[1]->size(), 2u) << "in pieces";
  }
  EXPECT_EQ(g_driver.last_asked, first) << "registered anew";
  EXPECT_EQ(pool.free_bytes(), pool.capacity_bytes());
}

TEST_F(HostPoolTest, GrowsByWhatIsMissingAndKeepsWhatItHas) {
  HostPool pool(driver_, kNoLimit);
  ASSERT_TRUE(pool.reserve(kMiB, kDevice).ok());
  const HostBlock kept = pool.take(kMiB);
  unsigned char* const base = g_driver.last_asked;

  ASSERT_TRUE(pool.reserve(100 * kMiB, kDevice).ok());

  EXPECT_EQ(g_driver.ranges.size(), 2u);
  EXPECT_EQ(g_driver.ranges.count(base), 1u);
  EXPECT_EQ(pool.capacity_bytes(), 128 * kMiB);
  EXPECT_EQ(registered_bytes(), pool.capacity_bytes());
}

// What is free is of use wherever it lies: 120 MiB of blocks in two regions of 64, and in the gaps
// that other blocks leave.
TEST_F(HostPoolTest, BlocksReachAcrossRegionsAndGaps) {
  HostPool pool(driver_, kNoLimit);
  ASSERT_TRUE(pool.reserve(kMiB, kDevice).ok());
  ASSERT_TRUE(pool.reserve(70 * kMiB, kDevice).ok());
  ASSERT_EQ(pool.capacity_bytes(), 128 * kMiB);
  { const auto blocks = expect_room(pool, {40 * kMiB, 40 * kMiB, 40 * kMiB}); }

  auto blocks = expect_room(pool, std::vector<size_t>(128, kMiB));
  for (size_t i = 0; i < blocks.size(); i += 2) blocks[i] = nullptr;
  EXPECT_EQ(pool.free_bytes(), 64 * kMiB);
  const auto scattered = expect_room(pool, {64 * kMiB});
  EXPECT_EQ(scattered[0]->size(), 64u);
}

TEST_F(HostPoolTest, WhatIsFreeAgainIsOneExtentAgain) {
  HostPool pool(driver_, kNoLimit);
  ASSERT_TRUE(pool.reserve(64 * kMiB, kDevice).ok());
  auto blocks = expect_room(pool, std::vector<size_t>(64, kMiB));

  for (const size_t i : {3, 1, 2, 0}) blocks[i] = nullptr;
  blocks.clear();

  EXPECT_EQ(expect_room(pool, {64 * kMiB})[0]->size(), 1u);
}

TEST_F(HostPoolTest, MoreThanIsFreeIsNotGiven) {
  HostPool pool(driver_, kNoLimit);
  ASSERT_TRUE(pool.reserve(kMiB, kDevice).ok());

  EXPECT_EQ(pool.take(pool.capacity_bytes() + 1), nullptr);
  EXPECT_EQ(pool.free_bytes(), pool.capacity_bytes());
  const HostBlock all = pool.take(pool.capacity_bytes());
  EXPECT_NE(all, nullptr);
  EXPECT_EQ(pool.take(1), nullptr);
}

TEST_F(HostPoolTest, MemoryThatCannotBePinnedIsGivenBack) {
  HostPool pool(driver_, kNoLimit);
  g_driver.result = driver_result::kOutOfMemory;

  const Status status = pool.reserve(kMiB, kDevice);

  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::os) << "a resume does not wait for GPU memory";
  EXPECT_EQ(status.error().message,
            "cuMemHostRegister(64 MiB) failed: CUDA_ERROR_OUT_OF_MEMORY (2)");
  EXPECT_EQ(pool.capacity_bytes(), 0u);
  ASSERT_NE(g_driver.last_asked, nullptr);
  EXPECT_FALSE(is_mapped(g_driver.last_asked));
}

TEST_F(HostPoolTest, PagesThatTheKernelRefusesAreNotTouched) {
  FileCalls calls;
  calls.fallocate = [](int, int, off_t, off_t) { return errno = ENOSPC, -1; };
  HostPool pool(driver_, kNoLimit);

  const Status refused = pool.reserve(kMiB, kDevice);

  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::os);
  EXPECT_EQ(refused.error().message,
            "cannot allocate 64 MiB of host memory for contents: Cannot allocate memory");
  EXPECT_EQ(registered_bytes(), 0u);
}

TEST_F(HostPoolTest, RefusedGrowthLeavesWhatThereWas) {
  HostPool pool(driver_, kNoLimit);
  ASSERT_TRUE(pool.reserve(kMiB, kDevice).ok());
  const size_t capacity_bytes = pool.capacity_bytes();
  g_driver.result = driver_result::kOutOfMemory;

  EXPECT_FALSE(pool.reserve(80 * kMiB, kDevice).ok());

  EXPECT_EQ(pool.capacity_bytes(), capacity_bytes);
  EXPECT_TRUE(pool.reserve(kMiB, kDevice).ok());
  EXPECT_NE(pool.take(kMiB), nullptr);
}

TEST_F(HostPoolTest, MoreThanTheMachineHasIsRefusedBeforeTheKernelMustEndSomebody) {
  HostPool pool(driver_, kNoLimit);

  const Status status = pool.reserve(size_t{1} << 60, kDevice);

  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::os);
  EXPECT_EQ(status.error().code, ENOMEM);
  EXPECT_NE(status.error().message.find("needs 1099511627776 MiB of host memory, but the machine"),
            std::string::npos)
      << status.error().message;
  EXPECT_EQ(pool.capacity_bytes(), 0u);
  EXPECT_EQ(g_driver.last_asked, nullptr);
}

// Other processes would be told that it is still left.
TEST_F(HostPoolTest, IsReservedUntilItIsPinned) {
  static bool reserved;
  reserved = false;
  driver_.cuMemHostRegister_v2 = [](void*, size_t, unsigned) {
    const Result<UniqueFd> file = open_user_file(HostReservation::kFile);
    const auto found =
        lock_file(file.value().get(), F_OFD_GETLK, F_WRLCK, HostReservation::kCounting + 1, 0);
    reserved |= found && found->l_type == F_WRLCK;
    return driver_result::kUnknown;
  };
  HostPool pool(driver_, kNoLimit);

  EXPECT_FALSE(pool.reserve(kMiB, kDevice).ok());

  EXPECT_TRUE(reserved);
}

TEST_F(HostPoolTest, NeverBecomesLargerThanItsLimit) {
  HostPool pool(driver_, 100 * kMiB);
  ASSERT_TRUE(pool.reserve(kMiB, kDevice).ok());
  ASSERT_TRUE(pool.reserve(100 * kMiB, kDevice).ok());
  EXPECT_EQ(pool.capacity_bytes(), 100 * kMiB);
  { const auto blocks = expect_room(pool, {100 * kMiB}); }

  const Status status = pool.reserve(101 * kMiB, kDevice);

  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("needs 101 MiB of host memory, but AMEM_HOST_LIMIT allows "
                                        "100 MiB: raise it"),
            std::string::npos)
      << status.error().message;
  EXPECT_EQ(pool.capacity_bytes(), 100 * kMiB);
  EXPECT_TRUE(pool.reserve(100 * kMiB, kDevice).ok());
}

TEST_F(HostPoolTest, TrimReleasesWhatWasPinnedAtOnceAndHoldsNoBlock) {
  HostPool pool(driver_, kNoLimit);
  ASSERT_TRUE(pool.reserve(kMiB, kDevice).ok());
  HostBlock first = pool.take(64 * kMiB);
  unsigned char* const base = g_driver.last_asked;
  ASSERT_TRUE(pool.reserve(kMiB, kDevice).ok());
  HostBlock second = pool.take(kMiB);
  ASSERT_NE(g_driver.last_asked, base);

  first = nullptr;

  EXPECT_EQ(pool.trim(), 64 * kMiB);
  EXPECT_FALSE(is_mapped(base));
  EXPECT_TRUE(is_mapped(g_driver.last_asked)) << "a block is in it";
  EXPECT_EQ(pool.capacity_bytes(), 64 * kMiB);
  EXPECT_EQ(pool.free_bytes(), 63 * kMiB);
  EXPECT_EQ(pool.device(), kDevice);
  EXPECT_EQ(pool.trim(), 0u);

  second = nullptr;

  EXPECT_EQ(pool.trim(), 64 * kMiB);
}

TEST_F(HostPoolTest, IsTrimmedOnlyWhileNothingIsKept) {
  HostPool pool(driver_, kNoLimit);
  EXPECT_EQ(pool.trim(), 0u);
  ASSERT_TRUE(pool.reserve(kMiB, kDevice).ok());
  unsigned char* const base = g_driver.last_asked;
  HostBlock block = pool.take(kMiB);
  EXPECT_EQ(pool.trim(), 0u);
  EXPECT_TRUE(is_mapped(base));

  block = nullptr;

  EXPECT_EQ(pool.trim(), 64 * kMiB);
  EXPECT_TRUE(g_driver.ranges.empty());
  EXPECT_FALSE(is_mapped(base));
  EXPECT_EQ(pool.device(), -1);
  ASSERT_TRUE(pool.reserve(kMiB, kDevice).ok());
  EXPECT_NE(pool.take(kMiB), nullptr);
}

TEST_F(HostPoolTest, DestructorGivesEverythingBack) {
  std::vector<unsigned char*> bases;
  {
    HostPool pool(driver_, kNoLimit);
    ASSERT_TRUE(pool.reserve(kMiB, kDevice).ok());
    ASSERT_TRUE(pool.reserve(80 * kMiB, kDevice).ok());
    for (const auto& [base, range] : g_driver.ranges) bases.push_back(base);
    ASSERT_EQ(bases.size(), 2u);
    EXPECT_TRUE(is_mapped(bases[0]));
  }
  EXPECT_TRUE(g_driver.ranges.empty());
  for (unsigned char* base : bases) EXPECT_FALSE(is_mapped(base));
}

}  // namespace
}  // namespace amem
