// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "base/unique_fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <memory>

namespace amem {
namespace {

bool is_open(int fd) { return fcntl(fd, F_GETFD) != -1; }

TEST(UniqueFd, ClosesWhatItOwnsOnce) {
  const int raw = open("/dev/null", O_RDONLY | O_CLOEXEC);
  {
    UniqueFd first(raw);
    UniqueFd second(std::move(first));
    EXPECT_FALSE(first.valid());  // NOLINT(bugprone-use-after-move): what a move leaves
    EXPECT_TRUE(is_open(raw));
  }
  EXPECT_FALSE(is_open(raw));
}

TEST(UniqueFd, ReleaseGivesTheDescriptorAway) {
  UniqueFd owner(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int raw = owner.release();
  owner.reset();
  EXPECT_TRUE(is_open(raw));
  close(raw);
}

int open_null() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }

/// The exit status of a forked child that runs `body`, without the fork handlers of amem.
template <typename Body>
int status_of_child(Body body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

TEST(UniqueFd, IsClosedInAForkedChildUnlessItWasGivenAway) {
  const UniqueFd kept(open_null());
  UniqueFd moved(open_null()), set;
  set.reset(open_null());
  const UniqueFd other(std::move(moved));
  const int given = UniqueFd(open_null()).release();
  EXPECT_EQ(status_of_child([&] {
              UniqueFd::close_all();
              const bool closed = !is_open(kept.get()) && !is_open(other.get());
              return closed && !is_open(set.get()) && is_open(given) ? 0 : 1;
            }),
            0);
  for (const int fd : {kept.get(), other.get(), set.get(), given}) EXPECT_TRUE(is_open(fd));
  close(given);
}

// The child's own files may have the numbers of those that were closed.
TEST(UniqueFd, ThatWasClosedInAChildDoesNotCloseWhatTheChildOpens) {
  auto inherited = std::make_unique<UniqueFd>(open_null());
  EXPECT_EQ(status_of_child([&] {
              const int number = inherited->get();
              UniqueFd::close_all();
              if (open_null() != number) return 2;
              inherited.reset();
              return is_open(number) ? 0 : 1;
            }),
            0);
}

/// Closes the descriptor behind the back of its owner and opens a file, which gets the number.
int replace_behind(const UniqueFd& owner) {
  close(owner.get());
  const int other = open("/dev/zero", O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(other, owner.get());
  return other;
}

// A program that closes all descriptors from 3 on, as daemons do, and opens its own files.
TEST(UniqueFd, DoesNotCloseTheFileOfAnApplicationThatHasTakenItsNumber) {
  auto owner = std::make_unique<UniqueFd>(open_null());
  EXPECT_TRUE(owner->is_open());
  const int other = replace_behind(*owner);
  EXPECT_FALSE(owner->is_open());
  EXPECT_EQ(status_of_child([&] { return UniqueFd::close_all(), is_open(other) ? 0 : 1; }), 0);
  owner.reset();
  EXPECT_TRUE(is_open(other));
  close(other);
}

}  // namespace
}  // namespace amem
