// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "cycles/rendezvous.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
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
