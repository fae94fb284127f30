// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// amem/memory.hpp on the simulated GPU, with a library that is linked with the CUDA runtime.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <thread>
#include <type_traits>
#include <vector>

#include "amem/memory.hpp"

// Of runtime_user.c and fake_cudart.c.
extern "C" {
void* user_malloc(size_t size_bytes);
int user_free(void* pointer);
int user_malloc_result(size_t size_bytes);
int user_malloc_nowhere(size_t size_bytes);
int cudaMemset(void* pointer, int value, size_t size_bytes);
int cudaMemcpyToHost(void* to, const void* from, size_t size_bytes);
}

namespace amem::memory {
namespace {

constexpr size_t kBytes = size_t{4} << 20;

static_assert(std::is_nothrow_move_constructible_v<Allocation>);
static_assert(!std::is_copy_constructible_v<Allocation> && !std::is_copy_assignable_v<Allocation>);
static_assert(!std::is_copy_constructible_v<Region> && !std::is_move_constructible_v<Region>);

class CppMemory : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    std::filesystem::create_directories(machine());
    setenv("AMEM_SIM_DIR", machine().c_str(), 1);
    amemEnable();
    user_free(user_malloc(kBytes));  // makes the context current
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(machine()); }

  static amemTotals_t totals(const char* tag) {
    amemTotals_t totals{};
    EXPECT_EQ(amemGetTagTotals(tag, -1, -1, &totals), 0);
    return totals;
  }
  static std::vector<unsigned char> read(const void* pointer) {
    std::vector<unsigned char> data(kBytes);
    EXPECT_EQ(cudaMemcpyToHost(data.data(), pointer, kBytes), 0);
    return data;
  }
  static std::vector<unsigned char> all(unsigned char value) {
    return std::vector<unsigned char>(kBytes, value);
  }

 private:
  static std::filesystem::path machine() {
    return std::filesystem::temp_directory_path() / ("amem-cpp-memory-" + std::to_string(getpid()));
  }
};

TEST_F(CppMemory, PausesAndResumesByTag) {
  const Allocation weights(kBytes, "weights");
  const Allocation cache(kBytes, "kv_cache", Backup::none);
  EXPECT_EQ(weights.size_bytes(), kBytes);
  EXPECT_EQ(cache.tag(), "kv_cache");
  EXPECT_EQ(cache.backup(), Backup::none);
  ASSERT_EQ(cudaMemset(weights.data(), 7, kBytes), 0);

  pause("weights");
  EXPECT_EQ(state("weights"), amemPaused);
  EXPECT_EQ(state("kv_cache"), amemActive);
  EXPECT_EQ(totals("weights").resident_bytes, 0u);
  unsigned char saved = 0;
  weights.read_backup(&saved, kBytes - 1, 1);
  EXPECT_EQ(saved, 7);
  resume("weights");
  EXPECT_EQ(read(weights.data()), all(7));

  pause("weights,kv_cache");
  EXPECT_EQ(totals(nullptr).resident_bytes, 0u);
  resume();
  pause();
  EXPECT_EQ(state("kv_cache"), amemPaused);
  resume("weights,kv_cache");
  EXPECT_EQ(state("weights"), amemActive);
  EXPECT_EQ(state("kv_cache"), amemActive);
}

TEST_F(CppMemory, ZeroedMemoryIsZeroAfterAResume) {
  const Allocation counters(kBytes, "counters", Backup::zero);
  ASSERT_EQ(cudaMemset(counters.data(), 7, kBytes), 0);
  pause("counters");
  resume("counters");
  EXPECT_EQ(read(counters.data()), all(0));
}

TEST_F(CppMemory, ScopeFreesAnAllocationOnce) {
  {
    Allocation first(kBytes, "weights");
    void* const pointer = first.data();
    const Allocation second = std::move(first);
    EXPECT_EQ(second.data(), pointer);
    EXPECT_EQ(first.data(), nullptr);  // NOLINT(bugprone-use-after-move): what a move leaves
    EXPECT_EQ(totals("weights").allocated_bytes, kBytes);
    Allocation third(2 * kBytes, "weights");
    third = Allocation(kBytes, "kv_cache");
    EXPECT_EQ(third.tag(), "kv_cache");
    EXPECT_EQ(totals("weights").allocated_bytes, kBytes);
    pause();
  }
  EXPECT_EQ(totals(nullptr).allocated_bytes, 0u);
  resume();
}

TEST_F(CppMemory, RegionCoversItsScope) {
  void *weights = nullptr, *scratch = nullptr, *cache = nullptr, *outside = nullptr;
  {
    const Region region("weights");
    weights = user_malloc(kBytes);
    {
      const Region disabled = Region::disabled();
      scratch = user_malloc(kBytes);
    }
    const Region inner("kv_cache", Backup::none);
    cache = user_malloc(kBytes);
  }
  outside = user_malloc(kBytes);
  EXPECT_EQ(totals("weights").allocated_bytes, kBytes);
  EXPECT_EQ(totals("kv_cache").allocated_bytes, kBytes);
  EXPECT_EQ(totals(nullptr).allocated_bytes, 2 * kBytes);
  for (void* each : {weights, scratch, cache, outside}) EXPECT_EQ(user_free(each), 0);
}

// The runtime makes the context of a thread's device current in each of its calls.
TEST_F(CppMemory, RegionOfAThreadWithoutAContextHasOne) {
  std::thread([] {
    const Region region("weights");
    void* const weights = user_malloc(kBytes);
    ASSERT_NE(weights, nullptr);
    EXPECT_EQ(totals("weights").allocated_bytes, kBytes);
    EXPECT_EQ(cudaMemset(weights, 1, kBytes), 0);
    EXPECT_EQ(user_free(weights), 0);
  }).join();
}

TEST_F(CppMemory, CallOfNothingInARegionIsTheRuntimes) {
  const int nothing = user_malloc_result(0), nowhere = user_malloc_nowhere(kBytes);
  EXPECT_NE(nothing, 0) << "that of the driver";
  EXPECT_NE(nowhere, 0);
  const Region region("weights");
  EXPECT_EQ(user_malloc_result(0), nothing);
  EXPECT_EQ(user_malloc_nowhere(kBytes), nowhere);
  EXPECT_EQ(totals(nullptr).allocated_bytes, 0u);
}

TEST_F(CppMemory, MemoryOutsideRegionsIsTheRuntimes) {
  void* const plain = user_malloc(kBytes);
  EXPECT_EQ(totals(nullptr).allocated_bytes, 0u);
  ASSERT_EQ(cudaMemset(plain, 5, kBytes), 0);
  pause();
  EXPECT_EQ(read(plain), all(5)) << "it is not paused";
  resume();
  EXPECT_EQ(user_free(plain), 0);
}

TEST_F(CppMemory, FailedCallsThrow) {
  const auto code_of = [](const auto& call) {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), amemGetLastError());
      return error.code();
    }
    return 0;
  };
  EXPECT_NE(code_of([] { Allocation(kBytes, "not a tag"); }), 0);
  EXPECT_NE(code_of([] { Allocation(size_t{1} << 50, "weights"); }), 0);
  EXPECT_NE(code_of([] { Region("not a tag"); }), 0);
  EXPECT_NE(code_of([] { pause("not a tag"); }), 0);
  const Allocation weights(kBytes, "weights");
  unsigned char byte = 0;
  EXPECT_NE(code_of([&] { weights.read_backup(&byte, 0, 1); }), 0) << "it is not paused";
  EXPECT_NE(amemEndRegion(), 0) << "a region that failed is not open";
}

}  // namespace
}  // namespace amem::memory
