// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "contents/host_segment.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

namespace amem {
namespace {

constexpr size_t kBytes = size_t{1} << 20;
constexpr int kSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW;

UniqueFd memory(size_t size_bytes, int seals) {
  UniqueFd file(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(file.get(), static_cast<off_t>(size_bytes)), 0);
  EXPECT_EQ(fcntl(file.get(), F_ADD_SEALS, seals), 0);
  return file;
}

TEST(HostSegment, IsTheSameInEveryOpenFileDescription) {
  const HostSegment made = make_segment(kBytes);
  ASSERT_TRUE(made.file.valid());
  EXPECT_EQ(made.size_bytes, kBytes);

  const HostSegment opened = open_segment(made.file.get());

  ASSERT_TRUE(opened.file.valid());
  EXPECT_EQ(opened.size_bytes, kBytes);
  EXPECT_EQ(opened.inode, made.inode);
  EXPECT_NE(make_segment(kBytes).inode, made.inode);
  EXPECT_EQ(fcntl(opened.file.get(), F_GETFD), FD_CLOEXEC);
}

TEST(HostSegment, KeepsItsSize) {
  const HostSegment made = make_segment(kBytes);

  EXPECT_NE(ftruncate(made.file.get(), 0), 0);
  EXPECT_NE(ftruncate(made.file.get(), 2 * kBytes), 0);
  EXPECT_NE(fcntl(made.file.get(), F_ADD_SEALS, F_SEAL_WRITE), 0);
}

TEST(HostSegment, IsUsedByOne) {
  const HostSegment first = make_segment(kBytes), second = open_segment(first.file.get());
  EXPECT_FALSE(is_used_elsewhere(second));

  auto hold = hold_segment(first);

  ASSERT_NE(hold, nullptr);
  EXPECT_EQ(hold_segment(second), nullptr);
  EXPECT_TRUE(is_used_elsewhere(second));
  EXPECT_FALSE(is_used_elsewhere(first)) << "by itself";
  hold = nullptr;
  EXPECT_NE(hold_segment(second), nullptr);
}

// A program that closes all descriptors and opens its own files.
TEST(HostSegment, FileOfTheApplicationThatHasTakenItsNumberIsNoLock) {
  const HostSegment first = make_segment(kBytes), second = open_segment(first.file.get());
  const UniqueFd own(memfd_create("test", MFD_CLOEXEC));
  ASSERT_EQ(dup2(own.get(), first.file.get()), first.file.get());

  EXPECT_EQ(hold_segment(first), nullptr);
  EXPECT_NE(hold_segment(second), nullptr);
  EXPECT_EQ(close(first.file.get()), 0) << "it is open";
}

TEST(HostSegment, LockOfAFileThatHasTakenItsNumberStays) {
  const HostSegment segment = make_segment(kBytes);
  auto hold = hold_segment(segment);
  ASSERT_NE(hold, nullptr);
  const UniqueFd own = memory(kBytes, kSeals);
  struct flock lock {};
  lock.l_type = F_WRLCK;
  ASSERT_EQ(dup2(own.get(), segment.file.get()), segment.file.get());
  ASSERT_EQ(fcntl(own.get(), F_OFD_SETLK, &lock), 0);

  hold = nullptr;

  EXPECT_TRUE(is_used_elsewhere(open_segment(own.get())));
  EXPECT_EQ(close(segment.file.get()), 0) << "it is open";
}

TEST(HostSegment, IsFreeWhenItsUserIsKilled) {
  const HostSegment segment = make_segment(kBytes);
  int said[2];
  ASSERT_EQ(pipe2(said, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    const HostSegment own = open_segment(segment.file.get());
    const auto hold = hold_segment(own);
    const char holds = hold != nullptr ? 'y' : 'n';
    _exit(write(said[1], &holds, 1) == 1 ? pause() : 1);
  }
  char holds = 0;
  ASSERT_EQ(read(said[0], &holds, 1), 1);
  EXPECT_EQ(holds, 'y');
  EXPECT_EQ(hold_segment(segment), nullptr);

  ASSERT_EQ(kill(child, SIGKILL), 0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);

  EXPECT_NE(hold_segment(segment), nullptr);
  for (const int end : said) close(end);
}

struct WrongKind {
  const char* name;
  std::function<UniqueFd()> make;
};

const WrongKind kWrongKinds[] = {
    {"none", [] { return UniqueFd(); }},
    {"pipe",
     [] {
       int ends[2];
       EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
       close(ends[1]);
       return UniqueFd(ends[0]);
     }},
    {"socket", [] { return UniqueFd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)); }},
    {"eventfd", [] { return UniqueFd(eventfd(0, EFD_CLOEXEC)); }},
    {"epoll", [] { return UniqueFd(epoll_create1(EPOLL_CLOEXEC)); }},
    {"folder", [] { return UniqueFd(open("/", O_RDONLY | O_CLOEXEC)); }},
    {"path", [] { return UniqueFd(open("/dev/null", O_PATH | O_CLOEXEC)); }},
    {"file", [] { return UniqueFd(open("/proc/self/exe", O_RDONLY | O_CLOEXEC)); }},
    {"file_in_shm",
     [] { return UniqueFd(open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)); }},
    {"unsealed", [] { return UniqueFd(memfd_create("test", MFD_CLOEXEC)); }},
    {"can_shrink", [] { return memory(kBytes, F_SEAL_GROW | F_SEAL_SEAL); }},
    {"can_grow", [] { return memory(kBytes, F_SEAL_SHRINK | F_SEAL_SEAL); }},
    {"can_be_sealed", [] { return memory(kBytes, F_SEAL_SHRINK | F_SEAL_GROW); }},
    {"read_only", [] { return memory(kBytes, kSeals | F_SEAL_WRITE); }},
    {"read_only_later", [] { return memory(kBytes, kSeals | F_SEAL_FUTURE_WRITE); }},
    {"empty", [] { return memory(0, kSeals); }},
    {"half_a_page", [] { return memory(kBytes + 2048, kSeals); }},
    {"too_large", [] { return memory(kMaxSegmentBytes + kBytes, kSeals); }},
};

class WrongSegment : public testing::TestWithParam<WrongKind> {};

INSTANTIATE_TEST_SUITE_P(Is, WrongSegment, testing::ValuesIn(kWrongKinds),
                         [](const auto& kind) { return std::string(kind.param.name); });

TEST_P(WrongSegment, IsRefused) {
  const UniqueFd file = GetParam().make();
  EXPECT_FALSE(open_segment(file.get()).file.valid());
}

TEST(HostSegment, OfAnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const pid_t child = fork();
  if (child == 0) {
    if (seteuid(65534) != 0) _exit(2);
    const UniqueFd file = memory(kBytes, kSeals);
    if (!open_segment(file.get()).file.valid()) _exit(3);
    if (seteuid(0) != 0) _exit(4);
    _exit(open_segment(file.get()).file.valid() ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace amem
