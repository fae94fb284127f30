// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "engine/room_ticket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/file_lock.h"
#include "base/user_folder.h"

namespace amem {
namespace {

constexpr int64_t kNow = 1'000'000, kLater = kNow + 1;

TicketEntry entry(const char* job, std::initializer_list<const char*> gpus, int64_t joined_ns,
                  bool waits = true, uint64_t resumes = 0) {
  static off_t last_place = 0;
  TicketEntry made{};
  made.place = ++last_place;
  made.joined_ns = joined_ns;
  made.counts_until_ns = kLater;
  made.waits = waits ? 1 : 0;
  made.resumes = resumes;
  strcpy(made.job, job);
  size_t number = 0;
  for (const char* const gpu : gpus) strcpy(made.gpus[number++], gpu);
  return made;
}

TEST(ComesFirst, AloneAndBeforeLaterJobs) {
  const TicketEntry own = entry("a", {"0"}, 10);
  EXPECT_TRUE(comes_first(own, {}, kNow));
  const TicketEntry later = entry("b", {"0"}, 20);
  EXPECT_TRUE(comes_first(own, {later}, kNow));
  EXPECT_FALSE(comes_first(later, {own}, kNow));
}

TEST(ComesFirst, JobsWithoutACommonGpuDoNotWaitForEachOther) {
  const TicketEntry own = entry("b", {"1"}, 20);
  EXPECT_TRUE(comes_first(own, {entry("a", {"0"}, 10)}, kNow));
}

TEST(ComesFirst, GpuThatIsNotKnownMayBeThatOfAnyJob) {
  const TicketEntry first = entry("a", {RoomTicket::kUnknownGpu}, 10), own = entry("b", {"1"}, 20);
  EXPECT_TRUE(comes_first(first, {own}, kNow));
  EXPECT_FALSE(comes_first(own, {first}, kNow));
  const TicketEntry later = entry("c", {RoomTicket::kUnknownGpu}, 30);
  EXPECT_FALSE(comes_first(later, {own}, kNow));
}

// a0 and b1 joined first on different GPUs. Without an order of jobs each job would hold one GPU.
TEST(ComesFirst, JobsAreInTheSameOrderOnAllGpus) {
  const TicketEntry a0 = entry("a", {"0"}, 10), b1 = entry("b", {"1"}, 20),
                    b0 = entry("b", {"0"}, 30), a1 = entry("a", {"1"}, 40);
  EXPECT_TRUE(comes_first(a0, {a1, b0, b1}, kNow));
  EXPECT_TRUE(comes_first(a1, {a0, b0, b1}, kNow));
  EXPECT_FALSE(comes_first(b0, {a0, a1, b1}, kNow));
  EXPECT_FALSE(comes_first(b1, {a0, a1, b0}, kNow));
}

// a0 has its memory; a1 had its own too, and was paused again since.
TEST(ComesFirst, PlaceDoesNotReturnWhenAProcessOfTheJobIsPausedLater) {
  const TicketEntry a0 = entry("a", {"0"}, 10, false, 1), b1 = entry("b", {"1"}, 20);
  TicketEntry a1 = entry("a", {"1"}, 0, false, 0);
  a1.paused_ns = 9;
  EXPECT_FALSE(comes_first(b1, {a0, a1}, kNow));
  a1.paused_ns = 15;
  EXPECT_TRUE(comes_first(b1, {a0, a1}, kNow));
}

// a0 has its memory; a1, which is known from a pause, has not joined yet.
TEST(ComesFirst, PlaceRemainsUntilAllProcessesOfTheJobHaveResumed) {
  const TicketEntry a0 = entry("a", {"0"}, 10, false, 1), b1 = entry("b", {"1"}, 20),
                    b0 = entry("b", {"0"}, 30);
  TicketEntry a1 = entry("a", {"1"}, 0, false, 0);
  EXPECT_FALSE(comes_first(b1, {a0, a1, b0}, kNow));
  a1.resumes = 1;
  EXPECT_TRUE(comes_first(b1, {a0, a1, b0}, kNow));
}

// a0 has resumed its tags one by one; a1 has less tags.
TEST(ComesFirst, ProcessWithoutPausedMemoryIsNotWaitedFor) {
  const TicketEntry a0 = entry("a", {"0"}, 10, false, 2), b0 = entry("b", {"0"}, 30);
  EXPECT_TRUE(comes_first(b0, {a0, entry("a", {}, 20, false, 1)}, kNow));
  EXPECT_FALSE(comes_first(b0, {a0, entry("a", {"1"}, 20, false, 1)}, kNow));
}

TEST(ComesFirst, ProcessesOfOneJobOnOneGpuAreFirstOneAfterAnother) {
  const TicketEntry first = entry("a", {"0"}, 10), second = entry("a", {"0", "1"}, 20),
                    third = entry("a", {"2"}, 30);
  EXPECT_FALSE(comes_first(second, {first, third}, kNow));
  EXPECT_TRUE(comes_first(third, {first, second}, kNow));
}

TEST(ComesFirst, PlaceThatIsNotExtendedDoesNotCount) {
  const TicketEntry stopped = entry("a", {"0"}, 10), own = entry("b", {"0"}, 20);
  EXPECT_FALSE(comes_first(own, {stopped}, kNow));
  EXPECT_TRUE(comes_first(own, {stopped}, kLater));
}

TEST(ComesFirst, OneOfTwoThatJoinedAtTheSameTime) {
  for (const char* job : {"a", "b"}) {
    const TicketEntry one = entry("a", {"0"}, 10), other = entry(job, {"0"}, 10);
    EXPECT_NE(comes_first(one, {other}, kNow), comes_first(other, {one}, kNow)) << job;
  }
}

/// The exit status of a forked child that runs `body`; a signal is one too.
template <typename Body>
int status_of_child(Body body) {
  const pid_t child = fork();
  if (child == 0) body();
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

class RoomTicketTest : public testing::Test {
 protected:
  static Deadline patience() { return Deadline::after_ms(20000); }
  static std::filesystem::path path() {
    return std::filesystem::path(user_folder()) / TicketEntry::kFile;
  }
  static size_t places() { return std::filesystem::file_size(path()) / sizeof(TicketEntry); }
  /// Whether the place at this index has an owner.
  static bool is_held(size_t index) {
    const UniqueFd file(open(path().c_str(), O_RDWR | O_CLOEXEC));
    const auto lock = lock_file(file.get(), F_OFD_GETLK, F_WRLCK,
                                static_cast<off_t>(index * sizeof(TicketEntry)), 1);
    return lock && lock->l_type == F_WRLCK;
  }
  static bool is_first(RoomTicket& ticket) {
    const Result<bool> first = ticket.is_first();
    EXPECT_TRUE(first.ok());
    return first.ok() && first.value();
  }
};

TEST_F(RoomTicketTest, SecondIsFirstWhenTheFirstHasLeft) {
  RoomTicket one, other;
  ASSERT_TRUE(one.join("a", {"GPU-0"}).ok());
  ASSERT_TRUE(other.join("b", {"GPU-0"}).ok());
  EXPECT_TRUE(is_first(one));
  EXPECT_FALSE(is_first(other));
  one.leave(false, patience(), {});
  EXPECT_TRUE(is_first(other));
  other.leave(true, patience(), {});
}

TEST_F(RoomTicketTest, MemoryOfItsGpusIsAwaitedWhileItWaits) {
  RoomTicket other, own;
  EXPECT_FALSE(own.is_awaited({"0"}));
  ASSERT_TRUE(other.join("b", {"0", "1"}).ok());
  EXPECT_TRUE(own.is_awaited({"1", "2"}));
  EXPECT_FALSE(own.is_awaited({"2"}));
  EXPECT_TRUE(other.is_awaited({"0"}));
  other.leave(true, patience(), {});
  EXPECT_FALSE(own.is_awaited({"0"}));
}

TEST_F(RoomTicketTest, PlaceForTheJobEndsWithTheNextPause) {
  RoomTicket one, of_job, other;
  of_job.note(false, "a", {"GPU-1"});
  ASSERT_TRUE(one.join("a", {"GPU-0"}).ok());
  one.leave(true, patience(), {});
  ASSERT_TRUE(other.join("b", {"GPU-0", "GPU-1"}).ok());
  EXPECT_FALSE(is_first(other));
  one.note(false, "a", {"GPU-0"});
  EXPECT_TRUE(is_first(other));
  other.leave(false, patience(), {});
}

TEST_F(RoomTicketTest, OfAProcessThatHasEndedDoesNotCountAndGivesItsPlaceAway) {
  {
    RoomTicket first;
    ASSERT_TRUE(first.join("a", {"GPU-0"}).ok());
  }
  const size_t before = places();
  const pid_t child = fork();
  if (child == 0) {
    static RoomTicket* const ticket = new RoomTicket;
    _exit(ticket->join("a", {"GPU-0"}).ok() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  EXPECT_FALSE(is_held(0));
  RoomTicket own, other;
  ASSERT_TRUE(own.join("b", {"GPU-0"}).ok());
  EXPECT_TRUE(is_first(own));
  EXPECT_TRUE(is_held(0));
  EXPECT_EQ(places(), before);
  ASSERT_TRUE(other.join("b", {"GPU-0"}).ok());
  EXPECT_TRUE(is_held(1));
  EXPECT_FALSE(is_first(other));
}

// It would count with what the last owner of its place has left.
TEST_F(RoomTicketTest, ThatCannotBeWrittenHasNoPlace) {
  EXPECT_EQ(status_of_child([] {
              const rlimit limit{100, 100};
              setrlimit(RLIMIT_FSIZE, &limit);
              RoomTicket ticket;
              _exit(!ticket.join("a", {"0"}).ok() && !is_held(0) ? 0 : 1);
            }),
            0);
}

// The program has closed all descriptors.
TEST_F(RoomTicketTest, WhoseFileWasClosedDoesNotCountUntilItJoinsAgain) {
  RoomTicket one, other;
  const UniqueFd next(open("/dev/null", O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(one.join("a", {"GPU-0"}).ok());
  const int number = next.get() + 1;
  ASSERT_EQ(dup2(next.get(), number), number);
  EXPECT_FALSE(one.is_first().ok());
  ASSERT_TRUE(other.join("b", {"GPU-0"}).ok());
  EXPECT_TRUE(is_first(other));
  one.leave(false, patience(), {});
  ASSERT_TRUE(one.join("a", {"GPU-0"}).ok());
  EXPECT_FALSE(is_first(one));
  EXPECT_EQ(fcntl(number, F_GETFD), 0) << "it is the program's";
  close(number);
}

TEST_F(RoomTicketTest, AnnouncementsAreAddedAndCountUntilTheirDeadlines) {
  using Bytes = std::map<std::string, size_t>;
  RoomTicket one, other, reader;
  one.announce({{"GPU-0", 5}, {"GPU-1", 6}}, patience());
  other.announce({{"GPU-0", 7}}, patience());
  EXPECT_EQ(reader.announced(), (Bytes{{"GPU-0", 12}, {"GPU-1", 6}}));
  EXPECT_EQ(one.announced(), reader.announced());
  one.announce({{"GPU-0", 1}}, patience());
  EXPECT_EQ(reader.announced(), (Bytes{{"GPU-0", 8}}));
  other.announce({{"GPU-0", 7}}, Deadline::after_ms(-1));
  EXPECT_EQ(reader.announced(), (Bytes{{"GPU-0", 1}}));
  one.announce({}, patience());
  EXPECT_EQ(reader.announced(), Bytes());
}

// As programs that clean /dev/shm between jobs do.
TEST_F(RoomTicketTest, KeepsItsPlaceWhenTheFileIsRemoved) {
  RoomTicket one, other;
  ASSERT_TRUE(one.join("a", {"GPU-0"}).ok());
  std::filesystem::remove(path());
  ASSERT_TRUE(other.join("b", {"GPU-0"}).ok());
  EXPECT_TRUE(is_first(one));
  EXPECT_FALSE(is_first(other));
  one.leave(false, patience(), {});
  EXPECT_TRUE(is_first(other));
}

// A child of clone(2) runs no fork handlers, and keeps every descriptor.
TEST_F(RoomTicketTest, LeavesNoPlaceWithAChildOfClone) {
  pid_t child = 0;
  {
    RoomTicket ticket;
    ASSERT_TRUE(ticket.join("a", {"GPU-0"}).ok());
    child = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
    if (child == 0)
      for (;;) pause();
    EXPECT_TRUE(is_held(0));
  }
  EXPECT_FALSE(is_held(0));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST_F(RoomTicketTest, OneResumeOfAProcessIsInTheQueueAtATime) {
  RoomTicket ticket;
  ASSERT_TRUE(ticket.join("a", {"GPU-0"}).ok());
  const Status second = ticket.join("a", {"GPU-0"});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().kind, ErrorKind::misuse);
  ticket.leave(true, patience(), {});
  EXPECT_TRUE(ticket.join("a", {"GPU-0"}).ok());
  ticket.leave(true, patience(), {});
}

TEST_F(RoomTicketTest, BelowALimitOfFileSizesIsAnErrorAndNoSignal) {
  EXPECT_EQ(status_of_child([] {
              const rlimit limit{100, 100};
              setrlimit(RLIMIT_FSIZE, &limit);
              RoomTicket ticket;
              const Status joined = ticket.join("a", {"0"});
              _exit(!joined.ok() && joined.error().code == EFBIG ? 0 : 1);
            }),
            0);
}

// /proc/self is the process's first thread, which has no files any more.
TEST_F(RoomTicketTest, ExistsInAProgramWhoseFirstThreadHasEnded) {
  EXPECT_EQ(status_of_child([] {
              std::thread([] {
                const std::string own = "/proc/self/fd/0";
                while (access(own.c_str(), F_OK) == 0) usleep(1000);  // allow: a thread's end
                RoomTicket ticket;
                _exit(ticket.join("a", {"0"}).ok() ? 0 : 1);
              }).detach();
              syscall(SYS_exit, 0);
            }),
            0);
}

TEST_F(RoomTicketTest, TextOfOthersIsIgnored) {
  ASSERT_TRUE(make_user_folder().ok());
  { std::ofstream(path(), std::ios::app) << std::string(10 * sizeof(TicketEntry) + 7, 'x'); }
  RoomTicket own, other;
  ASSERT_TRUE(own.join("a", {"GPU-0"}).ok());
  ASSERT_TRUE(other.join("b", {"GPU-0"}).ok());
  EXPECT_TRUE(is_first(own));
  EXPECT_FALSE(is_first(other));
  // One that somebody holds too: all its processes, GPUs and times are "xxx".
  const UniqueFd file(open(path().c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(lock_file(file.get(), F_OFD_SETLK, F_WRLCK, 5 * off_t{sizeof(TicketEntry)}));
  EXPECT_TRUE(is_first(own));
  std::filesystem::remove(path());
}

TEST_F(RoomTicketTest, LinkInPlaceOfTheFileIsAnErrorAndNotFollowed) {
  ASSERT_TRUE(make_user_folder().ok());
  std::filesystem::remove(path());
  const std::filesystem::path target = testing::TempDir() + "room_ticket_target";
  std::filesystem::create_symlink(target, path());
  RoomTicket own;
  EXPECT_EQ(own.join("a", {"GPU-0"}).error().code, ELOOP);
  EXPECT_FALSE(own.is_awaited({"GPU-0"}));
  EXPECT_FALSE(std::filesystem::exists(target));
  std::filesystem::remove(path());
}

}  // namespace
}  // namespace amem
