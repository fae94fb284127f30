// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Contents on a disk that is slow, loses data or returns other data. The calls are those of the
// test.
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <iterator>
#include <thread>

#include "tests/slowdown.h"
#include "tests/support/executor_fixture.h"
#include "tests/support/file_calls.h"
#include "tests/support/peer_fixture.h"

namespace amem {
namespace {

class DiskTest : public ExecutorTest {
 protected:
  DiskTest() { EXPECT_TRUE(directory_.set(testing::TempDir()).ok()); }
  ~DiskTest() override {
    let_sync_end();
    MutexLock lock(mutex_);
    changed_.wait_until(mutex_, patience(), [&]() AMEM_REQUIRES(mutex_) { return held_ == 0; });
  }

  /// A sync does not end before let_sync_end().
  void hold_sync() {
    calls_.fdatasync = [this](int) {
      MutexLock lock(mutex_);
      ++held_;
      changed_.wait_until(mutex_, patience(), [&]() AMEM_REQUIRES(mutex_) { return ends_; });
      --held_;
      changed_.notify_all();
      return 0;
    };
  }
  void let_sync_end() {
    MutexLock lock(mutex_);
    ends_ = true;
    changed_.notify_all();
  }
  void expect_nothing_released() {
    for (BackingId id = 1; id <= added_; ++id) EXPECT_TRUE(is_intact(id)) << id;
    MutexLock lock(gpus_.mutex);
    EXPECT_TRUE(gpus_.unmapped.empty());
  }
  void add_on_disk(int device = FakeGpus::kFirstDevice) { added_ = add(device, Kind::disk); }
  Status move_out_within(long ms) {
    return executor_.move_out(plan_pause(registry_, {""}), Deadline::after_ms(ms), &report_);
  }

  Mutex mutex_;
  Condition changed_;
  bool ends_ AMEM_GUARDED_BY(mutex_) = false;
  int held_ AMEM_GUARDED_BY(mutex_) = 0;
  BackingId added_ = 0;
  FileCalls calls_;
};

TEST_F(DiskTest, NothingIsReleasedBeforeItIsDurable) {
  for (int i = 0; i < 3; ++i) add_on_disk();
  hold_sync();

  const Status late = move_out_within(1500 * kSlowdown);

  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().kind, ErrorKind::timeout);
  EXPECT_NE(late.error().message.find("of 786432 bytes are durable in " + testing::TempDir()),
            std::string::npos)
      << late.error().message;
  expect_nothing_released();
  let_sync_end();
  ASSERT_TRUE(move_out().ok());
  ASSERT_TRUE(resume().ok());
  for (BackingId id = 1; id <= 3; ++id) EXPECT_TRUE(is_intact(id)) << id;
}

TEST_F(DiskTest, LossIsTheErrorOfThePause) {
  for (int i = 0; i < 3; ++i) add_on_disk();
  calls_.fdatasync = [](int) {
    errno = EIO;
    return -1;
  };
  EXPECT_EQ(move_out().error().code, EIO);
  expect_nothing_released();
  calls_.fdatasync = nullptr;
  EXPECT_TRUE(move_out().ok());
  EXPECT_TRUE(resume().ok());
  for (BackingId id = 1; id <= 3; ++id) EXPECT_TRUE(is_intact(id)) << id;
}

// The contents of the second are written when the first are durable; then the disk fails.
TEST_F(DiskTest, WhatIsDurableWhenTheDiskFailsIsReadBack) {
  add_on_disk(FakeGpus::kFirstDevice);
  add_on_disk(FakeGpus::kFirstDevice + 1);
  int syncs = 0;
  calls_.fdatasync = [&](int) {
    MutexLock lock(mutex_);
    changed_.notify_all();
    errno = EIO;
    return ++syncs == 1 ? 0 : -1;
  };
  calls_.pwrite = [&](int file, const void* from, size_t count, off_t offset) {
    if (*static_cast<const unsigned char*>(from) == 2) {
      MutexLock lock(gpus_.mutex);
      gpus_.changed.wait_until(gpus_.mutex, patience(), [&]() AMEM_REQUIRES(gpus_.mutex) {
        return !gpus_.unmapped.empty();
      });
    }
    return FileCalls::real_pwrite(file, from, count, offset);
  };
  EXPECT_EQ(move_out().error().code, EIO);
  settle();
  EXPECT_EQ(state(1), BackingState::released);
  EXPECT_TRUE(is_intact(2));
  ASSERT_TRUE(resume().ok());
  EXPECT_TRUE(is_intact(1));
}

TEST_F(DiskTest, OtherDataIsAnErrorAndNeverContents) {
  for (int i = 0; i < 2; ++i) add_on_disk();
  ASSERT_TRUE(move_out().ok());
  calls_.pread = [](int file, void* to, size_t count, off_t offset) {
    const ssize_t got = FileCalls::real_pread(file, to, count, offset);
    if (got > 100) static_cast<unsigned char*>(to)[100] ^= 1;
    return got;
  };
  const Status failed = resume();
  ASSERT_FALSE(failed.ok());
  EXPECT_NE(failed.error().message.find("does not return what amem has written"), std::string::npos)
      << failed.error().message;
  settle();
  for (BackingId id = 1; id <= 2; ++id) EXPECT_EQ(state(id), BackingState::restoring);
  calls_.pread = nullptr;
  ASSERT_TRUE(resume().ok());
  for (BackingId id = 1; id <= 2; ++id) EXPECT_TRUE(is_intact(id)) << id;
}

// In a switch. The host memory through which one is read is not that through which the other is
// written.
TEST_F(DiskTest, OneIsReadWhileAnotherIsWritten) {
  add_on_disk();
  ASSERT_TRUE(move_out().ok());
  add_on_disk();
  bool is_read = false, is_written = false;  // with mutex_
  const auto note = [&](bool* is_so) {
    MutexLock lock(mutex_);
    *is_so = true;
    changed_.notify_all();
  };
  const auto wait_for = [&](const bool* is_so) {
    MutexLock lock(mutex_);
    EXPECT_TRUE(changed_.wait_until(mutex_, patience(), [&] { return *is_so; }));
  };
  calls_.pread = [&](int file, void* to, size_t count, off_t offset) {
    const ssize_t got = FileCalls::real_pread(file, to, count, offset);
    note(&is_read);
    wait_for(&is_written);
    return got;
  };
  calls_.pwrite = [&](int file, const void* from, size_t count, off_t offset) {
    const ssize_t put = FileCalls::real_pwrite(file, from, count, offset);
    note(&is_written);
    return put;
  };
  std::thread reader([&] { EXPECT_TRUE(resume().ok()); });
  wait_for(&is_read);
  Plan other;
  other.own = {2};
  MoveReport report;
  EXPECT_TRUE(executor_.move_out(other, patience(), &report).ok());
  reader.join();
  EXPECT_TRUE(is_intact(1));
  calls_.pread = nullptr;
  ASSERT_TRUE(resume().ok());
  EXPECT_TRUE(is_intact(2));
}

/// Each backing has a file with a name in an empty directory.
class NamedFilesTest : public DiskTest {
 protected:
  NamedFilesTest() {
    std::filesystem::create_directory(folder_);
    EXPECT_TRUE(directory_.set(folder_ + "/XXXXXX").ok());
    for (int i = 0; i < 3; ++i) add_on_disk();
  }
  ~NamedFilesTest() override { std::filesystem::remove_all(folder_); }
  ptrdiff_t files() const {
    return std::distance(std::filesystem::directory_iterator(folder_),
                         std::filesystem::directory_iterator());
  }
  const std::string folder_ = testing::TempDir() + "amem_named-" + std::to_string(getpid());
};

TEST_F(NamedFilesTest, AreThereWhileTheMemoryIsReleased) {
  for (int cycle = 0; cycle < 2; ++cycle) {
    ASSERT_TRUE(move_out().ok());
    EXPECT_EQ(files(), 3);
    ASSERT_TRUE(resume().ok());
    settle();
    EXPECT_TRUE(eventually([&] { return files() == 0; }));
    for (BackingId id = 1; id <= 3; ++id) EXPECT_TRUE(is_intact(id)) << id;
  }
}

TEST_F(NamedFilesTest, OfWhichOneCannotBeMadeLeaveNoneAndReleaseNothing) {
  int made = 0;
  calls_.fallocate = [&](int, int, off_t, off_t) {
    errno = ENOSPC;
    return ++made < 3 ? 0 : -1;
  };
  EXPECT_EQ(move_out().error().code, ENOSPC);
  EXPECT_TRUE(eventually([&] { return files() == 0; }));
  expect_nothing_released();
}

// On the thread of the device, where signals do not interrupt it.
TEST_F(DiskTest, ReservationThatHangsEndsThePauseAtItsDeadline) {
  add_on_disk();
  ASSERT_TRUE(move_out().ok() && resume().ok());  // host memory is there, and is not reserved again
  {
    MutexLock lock(gpus_.mutex);
    gpus_.unmapped.clear();
  }
  calls_.fallocate = [this](int, int, off_t, off_t) {
    MutexLock lock(mutex_);
    changed_.wait_until(mutex_, patience(), [&]() AMEM_REQUIRES(mutex_) { return ends_; });
    return 0;
  };
  const Status late = move_out_within(1500 * kSlowdown);
  EXPECT_EQ(late.error().kind, ErrorKind::timeout);
  EXPECT_NE(late.error().message.find("the reservation of a backup file in " + testing::TempDir()),
            std::string::npos)
      << late.error().message;
  let_sync_end();
  expect_nothing_released();
}

}  // namespace
}  // namespace amem
