// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "base/unique_fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace amem
