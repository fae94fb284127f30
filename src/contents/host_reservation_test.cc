// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "contents/host_reservation.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <optional>

#include "base/file_lock.h"

namespace amem {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

/// Processes that share a limit of 100 MiB. Reservations are by open file, so that those of one
/// process are told apart as those of several are.
class HostReservationTest : public testing::Test {
 protected:
  ~HostReservationTest() override { std::filesystem::remove(path_); }

  UniqueFd open_file() const {
    return UniqueFd(open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  }
  Result<HostReservation> reserve(size_t mib, long deadline_ms = 20000) {
    return HostReservation::make(
        mib * kMiB, [this] { return left_mib_ * kMiB; }, open_file(),
        Deadline::after_ms(deadline_ms));
  }
  /// Whether a byte of the file from this one on is locked.
  bool is_locked(off_t begin, off_t size = 0) const {
    const UniqueFd file = open_file();
    const auto found = lock_file(file.get(), F_OFD_GETLK, F_WRLCK, begin, size);
    return found && found->l_type != F_UNLCK;
  }
  bool is_reserved() const { return is_locked(HostReservation::kCounting + 1); }

  std::atomic<size_t> left_mib_{100};
  const std::string path_ = testing::TempDir() + "amem_reservations_" + std::to_string(getpid());
};

TEST_F(HostReservationTest, FitsBesideThoseOfOthers) {
  const auto one = reserve(40), other = reserve(60);

  EXPECT_TRUE(one.ok() && other.ok());
  EXPECT_TRUE(is_reserved());
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
  EXPECT_FALSE(is_reserved());
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

  EXPECT_FALSE(is_reserved());
  EXPECT_TRUE(reserve(90, 0).ok());
}

// A process that is stopped while it counts, for example by a debugger, does not stop others.
TEST_F(HostReservationTest, WaitsOnlyAMomentForAnotherThatCounts) {
  const UniqueFd counting = open_file();
  ASSERT_TRUE(lock_file(counting.get(), F_OFD_SETLK, F_WRLCK, HostReservation::kCounting, 1));
  const auto begin = std::chrono::steady_clock::now();

  EXPECT_TRUE(reserve(60).ok());

  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

// Such a child runs no fork handlers, and keeps every descriptor.
TEST_F(HostReservationTest, LeavesNoLockWithAChildOfClone) {
  pid_t child = 0;
  std::optional<Result<HostReservation>> reserved(HostReservation::make(
      60 * kMiB,
      [&] {
        child = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
        if (child == 0)
          for (;;) pause();
        return 100 * kMiB;
      },
      open_file(), Deadline::after_ms(20000)));
  EXPECT_TRUE(reserved->ok());

  EXPECT_FALSE(is_locked(HostReservation::kCounting, 1)) << "the child counts for ever";
  EXPECT_TRUE(is_reserved());
  reserved.reset();
  EXPECT_FALSE(is_reserved()) << "the child holds it";
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST_F(HostReservationTest, WithoutAFileNobodyElseCounts) {
  const auto other = reserve(60);
  for (const size_t mib : {60, 101}) {
    const auto alone = HostReservation::make(
        mib * kMiB, [] { return 100 * kMiB; }, UniqueFd(), Deadline::after_ms(20000));
    EXPECT_EQ(alone.ok(), mib == 60);
  }
}

// The kernel names any of the locks of a range first.
TEST_F(HostReservationTest, AllOfManyCountInWhateverOrderTheyEnd) {
  std::map<int, Result<HostReservation>> held;
  for (int i = 0; i < 10; ++i) held.emplace(i, reserve(10));
  EXPECT_TRUE(is_reserved());
  for (const int gone : {4, 0, 6}) held.erase(gone);
  auto fourth = std::async(std::launch::async, [&] { return reserve(31).ok(); });
  EXPECT_EQ(fourth.wait_for(std::chrono::milliseconds(30)), std::future_status::timeout);
  EXPECT_TRUE(reserve(30).ok());
  held.erase(7);
  EXPECT_TRUE(fourth.get());
}

}  // namespace
}  // namespace amem
