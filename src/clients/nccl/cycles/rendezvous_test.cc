// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/nccl/cycles/rendezvous.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include "base/user_folder.h"

namespace amem {
namespace {

class RendezvousTest : public testing::Test {
 protected:
  ~RendezvousTest() override { std::filesystem::remove(path()); }
  std::string path() const { return user_folder() + "/cycles-" + id_.hex(); }
  std::unique_ptr<Rendezvous> open(int ranks) {
    Result<std::unique_ptr<Rendezvous>> opened = Rendezvous::open(id_, ranks);
    EXPECT_TRUE(opened.ok());
    return std::move(opened.value());
  }
  static Deadline patience() { return Deadline::after_ms(20000); }

  const CommunicatorId id_{{0x7e57, static_cast<uint64_t>(getpid())}};
};

TEST_F(RendezvousTest, RanksMeetAgainAndAgain) {
  const auto both = open(3), one = open(3);
  const auto meet = [](Rendezvous& rendezvous, int ranks) {
    for (uint32_t time = 1; time <= 100; ++time)
      ASSERT_TRUE(rendezvous.arrive(time, ranks, patience()).ok());
  };
  std::thread other([&] { meet(*one, 1); });
  meet(*both, 2);
  other.join();
  EXPECT_FALSE(std::filesystem::exists(path()));
}

TEST_F(RendezvousTest, OneThatWaitsInVainSaysForHowMany) {
  const auto lonely = open(3);
  const Status late = lonely->arrive(1, 1, Deadline::after_ms(1));
  EXPECT_EQ(late.error().kind, ErrorKind::timeout);
  EXPECT_EQ(late.error().message.rfind("2 ranks of the communicator", 0), 0u);
  EXPECT_FALSE(lonely->arrive(2, 3, patience()).ok()) << "an error is final";
}

// An access to a mapping of it would end the process (SIGBUS).
TEST_F(RendezvousTest, FileThatAnotherProgramTruncatesIsATimeout) {
  const auto one = open(2), other = open(2);
  std::thread arriving([&] { EXPECT_TRUE(one->arrive(1, 1, patience()).ok()); });
  ASSERT_TRUE(other->arrive(1, 1, patience()).ok());
  arriving.join();
  const auto truncated = open(2);
  std::filesystem::resize_file(path(), 0);
  EXPECT_EQ(truncated->arrive(1, 1, Deadline::after_ms(1)).error().kind, ErrorKind::timeout);
}

// As with RLIMIT_FSIZE (SIGXFSZ); a full /dev/shm fails in the same call.
TEST_F(RendezvousTest, FileThatCannotGrowIsAnError) {
  const auto lonely = open(2);
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_DFL);
    const rlimit none{0, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &none);
    const Status failed = lonely->arrive(1, 1, patience());
    _exit(!failed.ok() && failed.error().code == EFBIG ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace amem
