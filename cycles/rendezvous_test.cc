// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "cycles/rendezvous.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <thread>

namespace amem::cycles {
namespace {

class RendezvousTest : public testing::Test {
 protected:
  ~RendezvousTest() override { std::filesystem::remove(path()); }
  std::string path() const { return Rendezvous::path_of(id_); }
  std::unique_ptr<Rendezvous> open(int ranks) {
    std::string error;
    auto opened = Rendezvous::open(id_, ranks, &error);
    EXPECT_NE(opened, nullptr) << error;
    return opened;
  }
  static constexpr long kPatienceMs = 20000;

  const std::string id_ = "test-" + std::to_string(getpid());
};

TEST_F(RendezvousTest, RanksMeetAgainAndAgain) {
  const auto both = open(3), one = open(3);
  const auto meet = [](Rendezvous& rendezvous, int ranks) {
    for (uint32_t time = 1; time <= 100; ++time)
      ASSERT_EQ(rendezvous.arrive(time, ranks, kPatienceMs), "");
  };
  std::thread other([&] { meet(*one, 1); });
  meet(*both, 2);
  other.join();
  EXPECT_FALSE(std::filesystem::exists(path()));
}

TEST_F(RendezvousTest, OneThatWaitsInVainSaysForHowMany) {
  const auto lonely = open(3);
  EXPECT_EQ(lonely->arrive(1, 1, 1).rfind("2 ranks of the communicator", 0), 0u);
  EXPECT_NE(lonely->arrive(2, 3, kPatienceMs), "") << "an error is final";
}

TEST_F(RendezvousTest, FolderThatOthersMayEnterIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  constexpr uid_t kOtherUser = 54322;
  const std::string folder = "/dev/shm/amem-" + std::to_string(kOtherUser);
  const auto error_of_other_user = [&] {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      std::string error = "not this user";
      if (setresuid(kOtherUser, kOtherUser, kOtherUser) == 0) {
        error.clear();
        if (Rendezvous::open(id_, 1, &error) != nullptr) unlink(path().c_str());
      }
      _exit(write(ends[1], error.data(), error.size()) < 0 ? 1 : 0);
    }
    close(ends[1]);
    char text[512] = "";
    for (ssize_t size = 0, got = 1; got > 0; size += got)
      got = read(ends[0], text + size, sizeof text - 1 - static_cast<size_t>(size));
    close(ends[0]);
    EXPECT_EQ(waitpid(child, nullptr, 0), child);
    return std::string(text);
  };
  const std::string refused = folder + " is not a directory that only user 54322 may enter";
  std::filesystem::remove_all(folder);
  ASSERT_EQ(mkdir(folder.c_str(), 0777), 0);
  EXPECT_EQ(error_of_other_user().rfind(refused, 0), 0u) << "it is root's";
  ASSERT_EQ(chown(folder.c_str(), kOtherUser, kOtherUser), 0);
  ASSERT_EQ(chmod(folder.c_str(), 0750), 0);
  EXPECT_EQ(error_of_other_user().rfind(refused, 0), 0u) << "its group may enter";
  ASSERT_EQ(chmod(folder.c_str(), 0700), 0);
  EXPECT_EQ(error_of_other_user(), "");
  std::filesystem::remove_all(folder);
}

// An access to a mapping of it would end the process (SIGBUS).
TEST_F(RendezvousTest, FileThatAnotherProgramTruncatesIsATimeout) {
  const auto one = open(2), other = open(2);
  std::thread arriving([&] { EXPECT_EQ(one->arrive(1, 1, kPatienceMs), ""); });
  ASSERT_EQ(other->arrive(1, 1, kPatienceMs), "");
  arriving.join();
  const auto truncated = open(2);
  std::filesystem::resize_file(path(), 0);
  EXPECT_NE(truncated->arrive(1, 1, 1).find("in time"), std::string::npos);
}

// As with RLIMIT_FSIZE (SIGXFSZ); a full /dev/shm fails in the same call.
TEST_F(RendezvousTest, FileThatCannotGrowIsAnError) {
  const auto lonely = open(2);
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_DFL);
    const rlimit none{0, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &none);
    const std::string failed = lonely->arrive(1, 1, kPatienceMs);
    _exit(failed.find(strerror(EFBIG)) != failed.npos ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace amem::cycles
