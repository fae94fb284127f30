// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "base/user_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace amem {
namespace {

mode_t mode() {
  struct stat found {};
  EXPECT_EQ(stat(user_folder().c_str(), &found), 0);
  return found.st_mode & 0777;
}

// A process with a strict umask made the folder: later processes can use it.
TEST(UserFolder, ThatItsUserMayNotEnterIsMended) {
  ASSERT_TRUE(make_user_folder().ok());
  ASSERT_EQ(chmod(user_folder().c_str(), 0), 0);
  EXPECT_TRUE(make_user_folder().ok());
  EXPECT_EQ(mode(), 0700u);
}

TEST(UserFolder, ThatOthersMayEnterIsRefused) {
  ASSERT_TRUE(make_user_folder().ok());
  ASSERT_EQ(chmod(user_folder().c_str(), 0710), 0);
  EXPECT_FALSE(make_user_folder().ok());
  EXPECT_EQ(chmod(user_folder().c_str(), 0700), 0);
}

}  // namespace
}  // namespace amem
