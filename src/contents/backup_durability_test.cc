// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// When the contents of a file are durable. fdatasync(2) is that of the test.
#include <gtest/gtest.h>

#include <cerrno>
#include <vector>

#include "base/mutex.h"
#include "contents/backup_file.h"
#include "tests/support/file_calls.h"

namespace amem {
namespace {

class BackupDurability : public testing::Test {
 protected:
  BackupDurability() {
    calls_.fallocate = [](int, int, off_t, off_t) { return 0; };
    // Nothing is stored: these tests write more than is good for a disk.
    calls_.pwrite = [](int, const void*, size_t count, off_t) {
      return static_cast<ssize_t>(count);
    };
    calls_.fdatasync = [this](int) {
      MutexLock lock(mutex_);
      ++begun_;
      changed_.notify_all();
      changed_.wait_until(mutex_, patience(),
                          [&]() AMEM_REQUIRES(mutex_) { return begun_ <= ending_; });
      errno = code_;
      return code_ == 0 ? 0 : -1;
    };
    file_ = BackupFile::make(testing::TempDir(), 0).value();
  }
  ~BackupDurability() override {
    let_end(1000, 0);
    file_->sync();
    (void)file_->wait_until_durable(patience());
  }
  /// So many calls of fdatasync(2) end, with this errno.
  void let_end(int count, int code) {
    MutexLock lock(mutex_);
    ending_ = count;
    code_ = code;
    changed_.notify_all();
  }
  bool wait_for_begun(int count) {
    MutexLock lock(mutex_);
    return changed_.wait_until(mutex_, patience(),
                               [&]() AMEM_REQUIRES(mutex_) { return begun_ >= count; });
  }
  int begun() {
    MutexLock lock(mutex_);
    return begun_;
  }
  Status write_mib(size_t count) {
    for (size_t i = 0; i < count; ++i) {
      AMEM_TRY(file_->write(end_, mib_.data(), mib_.size()));
      end_ += mib_.size();
    }
    return ok_status();
  }
  static Deadline patience() { return Deadline::after_ms(20000); }

  const std::vector<unsigned char> mib_ = std::vector<unsigned char>(1 << 20, 7);
  size_t end_ = 0;
  Mutex mutex_;
  Condition changed_;
  int begun_ AMEM_GUARDED_BY(mutex_) = 0;
  int ending_ AMEM_GUARDED_BY(mutex_) = 0;
  int code_ AMEM_GUARDED_BY(mutex_) = 0;
  FileCalls calls_;
  std::shared_ptr<BackupFile> file_;
};

TEST_F(BackupDurability, IsReachedInGroups) {
  let_end(1000, 0);
  ASSERT_TRUE(write_mib(255).ok());
  EXPECT_EQ(begun(), 0) << "a few bytes do not make the disk wait";
  ASSERT_TRUE(write_mib(1).ok());
  EXPECT_TRUE(wait_for_begun(1));
  EXPECT_TRUE(file_->wait_until_durable(patience()).ok());
  ASSERT_TRUE(write_mib(3).ok());
  file_->sync();
  EXPECT_TRUE(file_->wait_until_durable(patience()).ok());
  EXPECT_EQ(begun(), 2);
}

TEST_F(BackupDurability, IsNotReachedWhileTheDiskHasNotAnswered) {
  ASSERT_TRUE(write_mib(5).ok());
  file_->sync();
  ASSERT_TRUE(wait_for_begun(1));
  const Status late = file_->wait_until_durable(Deadline::after_ms(1));
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().kind, ErrorKind::timeout);
  for (const std::string& part :
       {std::string("fdatasync() has not ended: 0 of 5242880 bytes are durable in "),
        testing::TempDir(), std::string("AMEM_TIMEOUT_MS")})
    EXPECT_NE(late.error().message.find(part), std::string::npos) << late.error().message;
  let_end(1000, 0);
  EXPECT_TRUE(file_->wait_until_durable(patience()).ok());
}

// What is written during a sync is not covered by it.
TEST_F(BackupDurability, OfLaterBytesNeedsAnotherSync) {
  ASSERT_TRUE(write_mib(1).ok());
  file_->sync();
  ASSERT_TRUE(wait_for_begun(1));
  ASSERT_TRUE(write_mib(1).ok());
  file_->sync();
  let_end(1, 0);
  ASSERT_TRUE(wait_for_begun(2));
  EXPECT_FALSE(file_->wait_until_durable(Deadline::after_ms(1)).ok());
  let_end(1000, 0);
  EXPECT_TRUE(file_->wait_until_durable(patience()).ok());
}

// The kernel reports a loss once; a later sync would succeed.
TEST_F(BackupDurability, IsLostForEverAfterAnError) {
  let_end(1000, ENOSPC);
  ASSERT_TRUE(write_mib(2).ok());
  file_->sync();
  const Status lost = file_->wait_until_durable(patience());
  ASSERT_FALSE(lost.ok());
  EXPECT_EQ(lost.error().code, ENOSPC);
  EXPECT_NE(lost.error().message.find("fdatasync() of a backup file in " + testing::TempDir()),
            std::string::npos)
      << lost.error().message;
  let_end(1000, 0);
  file_->sync();
  EXPECT_EQ(file_->wait_until_durable(patience()).error().code, ENOSPC);
  EXPECT_EQ(write_mib(1).error().code, ENOSPC);
  EXPECT_EQ(begun(), 1);
}

// The last user goes, and the call that hangs uses the file.
TEST_F(BackupDurability, SyncThatHangsKeepsItsFile) {
  ASSERT_TRUE(write_mib(1).ok());
  file_->sync();
  ASSERT_TRUE(wait_for_begun(1));
  const std::weak_ptr<BackupFile> file = file_;
  file_ = BackupFile::make(testing::TempDir(), 0).value();
  EXPECT_FALSE(file.expired());
  let_end(1000, 0);
  const Deadline deadline = patience();
  while (!file.expired() && !deadline.passed()) sched_yield();
  EXPECT_TRUE(file.expired());
}

}  // namespace
}  // namespace amem
