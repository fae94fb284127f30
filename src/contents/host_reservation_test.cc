// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "contents/host_reservation.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <optional>

namespace amem {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

/// Processes that share a limit of 100 MiB. Reservations are by open file, so that those of one
/// process are told apart as those of several are.
class HostReservationTest : public testing::Test {
 protected:
  HostReservationTest() { std::filesystem::create_directories(folder_); }
  ~HostReservationTest() override { std::filesystem::remove_all(folder_); }

  Result<HostReservation> reserve(size_t mib, long deadline_ms = 20000) {
    return HostReservation::make(
        mib * kMiB, [this] { return left_mib_ * kMiB; }, folder_.string(),
        Deadline::after_ms(deadline_ms));
  }
  size_t files() const {
    size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      count += entry.path().filename() != "host-memory";
    return count;
  }

  std::atomic<size_t> left_mib_{100};
  const std::filesystem::path folder_ =
      testing::TempDir() + "amem_reservations_" + std::to_string(getpid());
};

TEST_F(HostReservationTest, FitsBesideThoseOfOthers) {
  const auto one = reserve(40), other = reserve(60);

  EXPECT_TRUE(one.ok() && other.ok());
  EXPECT_EQ(files(), 2u);
}

TEST_F(HostReservationTest, IsRefusedWhereTheMachineHasTooLittle) {
  const auto refused = reserve(101);

  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message,
            "saving the contents needs 101 MiB of host memory, but the machine (or the cgroup of "
            "this process) has 100 MiB left: free host memory");
}

// Both would be told that 100 MiB are left.
TEST_F(HostReservationTest, WaitsUntilAnotherHasWhatItReservedAndCountsThat) {
  std::optional<Result<HostReservation>> first(reserve(60));
  auto second = std::async(std::launch::async, [&] { return reserve(60).ok(); });
  EXPECT_EQ(second.wait_for(std::chrono::milliseconds(30)), std::future_status::timeout);

  left_mib_ = 40;  // the pages are touched
  first.reset();

  EXPECT_FALSE(second.get());
}

TEST_F(HostReservationTest, GoesOnWhenAnotherHasGivenItUp) {
  std::optional<Result<HostReservation>> first(reserve(60));
  auto second = std::async(std::launch::async, [&] { return reserve(60).ok(); });
  EXPECT_EQ(second.wait_for(std::chrono::milliseconds(30)), std::future_status::timeout);

  first.reset();

  EXPECT_TRUE(second.get());
  EXPECT_EQ(files(), 0u);
}

TEST_F(HostReservationTest, OfOneThatDoesNotGetOnDoesNotCountForEver) {
  const auto first = reserve(60);

  EXPECT_TRUE(reserve(60, 30).ok());
}

TEST_F(HostReservationTest, OfAProcessThatHasEndedDoesNotCount) {
  const pid_t child = fork();
  if (child == 0) {
    const auto reserved = reserve(90);
    _exit(reserved.ok() ? 0 : 1);
  }
  int status = 1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  ASSERT_EQ(files(), 1u);

  EXPECT_TRUE(reserve(90).ok());

  EXPECT_EQ(files(), 0u) << "the file of the ended process stays";
}

// A process that is stopped while it counts, for example by a debugger, does not stop others.
TEST_F(HostReservationTest, WaitsOnlyAMomentForAnotherThatCounts) {
  const UniqueFd counting(
      open((folder_ / "host-memory").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(flock(counting.get(), LOCK_EX), 0);
  const auto begin = std::chrono::steady_clock::now();

  EXPECT_TRUE(reserve(60).ok());

  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

// Such a child runs no fork handlers, and keeps every descriptor.
TEST_F(HostReservationTest, LeavesNoLockWithAChildOfClone) {
  pid_t child = 0;
  const auto reserved = HostReservation::make(
      60 * kMiB,
      [&] {
        child = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
        if (child == 0)
          for (;;) pause();
        return 100 * kMiB;
      },
      folder_.string(), Deadline::after_ms(20000));
  EXPECT_TRUE(reserved.ok());

  const UniqueFd counting(open((folder_ / "host-memory").c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_EQ(flock(counting.get(), LOCK_EX | LOCK_NB), 0) << "the child counts for ever";
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST_F(HostReservationTest, WithoutAFolderNobodyElseCounts) {
  const std::filesystem::path in_root = "/host-memory";  // of no folder
  ASSERT_FALSE(std::filesystem::exists(in_root));
  for (const char* folder : {"/nowhere", ""}) {
    const auto alone = HostReservation::make(
        60 * kMiB, [] { return 100 * kMiB; }, folder, Deadline::after_ms(20000));
    EXPECT_TRUE(alone.ok());
  }
  EXPECT_FALSE(std::filesystem::remove(in_root)) << "it was made there";
}

}  // namespace
}  // namespace amem
