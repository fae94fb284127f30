// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "base/user_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace amem {
namespace {

/// Of a user of its own: other tests use this user's folder at the same time.
class UserFolder : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  }
  /// The exit status of a child of another user that runs `body` in its new folder.
  template <typename Body>
  static int status_of_other_user(Body body) {
    const pid_t child = fork();
    if (child == 0) {
      if (seteuid(100000 + static_cast<uid_t>(getpid())) != 0 || !make_user_folder().ok()) _exit(2);
      const bool is_right = body();
      rmdir(user_folder().c_str());
      _exit(is_right ? 0 : 1);
    }
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return status;
  }
};

// A process with a strict umask made the folder: later processes can use it.
TEST_F(UserFolder, ThatItsUserMayNotEnterIsMended) {
  EXPECT_EQ(status_of_other_user([] {
              struct stat found {};
              const std::string path = user_folder();
              return chmod(path.c_str(), 0) == 0 && make_user_folder().ok() &&
                     stat(path.c_str(), &found) == 0 && (found.st_mode & 0777) == 0700;
            }),
            0);
}

// The process that makes a file has a strict umask: later processes can open it.
TEST_F(UserFolder, FileHasItsModeWhateverTheUmaskIs) {
  EXPECT_EQ(status_of_other_user([] {
              umask(0777);
              struct stat found {};
              const Result<UniqueFd> file = open_user_file("name");
              const bool is_right = file.ok() && fstat(file.value().get(), &found) == 0 &&
                                    (found.st_mode & 0777) == 0600 && open_user_file("name").ok();
              unlink((user_folder() + "/name").c_str());
              return is_right;
            }),
            0);
}

TEST_F(UserFolder, ThatOthersMayEnterIsRefused) {
  EXPECT_EQ(status_of_other_user(
                [] { return chmod(user_folder().c_str(), 0710) == 0 && !make_user_folder().ok(); }),
            0);
}

}  // namespace
}  // namespace amem
