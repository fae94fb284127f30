// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "contents/host_memory_lock.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <future>
#include <optional>

namespace amem {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

/// Locks are by open file, so that those of one process are told apart as those of several are.
class HostMemoryLockTest : public testing::Test {
 protected:
  HostMemoryLockTest() { std::filesystem::create_directories(folder_); }
  ~HostMemoryLockTest() override { std::filesystem::remove_all(folder_); }

  Result<HostMemoryLock> take(size_t mib, long deadline_ms = 20000) {
    return HostMemoryLock::take(
        mib * kMiB, [this] { return left_mib_ * kMiB; }, folder_.string(),
        Deadline::after_ms(deadline_ms));
  }

  std::atomic<size_t> left_mib_{100};
  const std::filesystem::path folder_ =
      testing::TempDir() + "amem_host_memory_" + std::to_string(getpid());
};

TEST_F(HostMemoryLockTest, IsRefusedWhereTheMachineHasTooLittle) {
  const auto refused = take(101);

  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message,
            "saving the contents needs 101 MiB of host memory, but the machine (or the cgroup of "
            "this process) has 100 MiB left: free host memory");
}

// Both would be told that 100 MiB are left.
TEST_F(HostMemoryLockTest, WaitsUntilAnotherHasWrittenItsPagesAndCountsThem) {
  std::optional<Result<HostMemoryLock>> first(take(60));
  auto second = std::async(std::launch::async, [&] { return take(60).ok(); });
  EXPECT_EQ(second.wait_for(std::chrono::milliseconds(30)), std::future_status::timeout);

  left_mib_ = 40;
  first.reset();

  EXPECT_FALSE(second.get());
}

TEST_F(HostMemoryLockTest, DoesNotWaitWhereThereIsPlenty) {
  const auto holder = take(60);

  EXPECT_TRUE(take(100 / HostMemoryLock::kScarce).ok());
}

TEST_F(HostMemoryLockTest, OfOneThatDoesNotGetOnDoesNotStopOthersForEver) {
  const auto first = take(60);

  EXPECT_TRUE(take(60, 30).ok());
}

TEST_F(HostMemoryLockTest, EndsWithItsProcess) {
  const pid_t child = fork();
  if (child == 0) {
    const auto lock = take(90);
    _exit(lock.ok() ? 0 : 1);
  }
  int status = 1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  const auto begin = std::chrono::steady_clock::now();

  EXPECT_TRUE(take(90).ok());

  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST_F(HostMemoryLockTest, WithoutAFolderNobodyWaits) {
  const auto alone = HostMemoryLock::take(
      60 * kMiB, [] { return 100 * kMiB; }, "/nowhere", Deadline::after_ms(20000));

  EXPECT_TRUE(alone.ok());
}

}  // namespace
}  // namespace amem
