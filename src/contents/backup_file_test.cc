// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "contents/backup_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/file_size_limit.h"

namespace amem {
namespace {

class BackupFileTest : public testing::Test {
 protected:
  BackupFileTest() { std::filesystem::create_directory(directory_); }
  ~BackupFileTest() override { std::filesystem::remove_all(directory_); }

  const std::string directory_ =
      testing::TempDir() + "amem_backup_file_test-" + std::to_string(getpid());
};

TEST_F(BackupFileTest, KeepsWhatIsWritten) {
  const auto file = BackupFile::make(directory_, 10000);
  ASSERT_TRUE(file.ok());
  const std::vector<unsigned char> first(4096, 1), second(5904, 2);
  ASSERT_TRUE(file.value()->write(4096, second.data(), second.size()).ok());
  ASSERT_TRUE(file.value()->write(0, first.data(), first.size()).ok());

  std::vector<unsigned char> found(10000);
  ASSERT_TRUE(file.value()->read(0, found.data(), found.size()).ok());
  EXPECT_EQ(std::vector(found.begin(), found.begin() + 4096), first);
  EXPECT_EQ(std::vector(found.begin() + 4096, found.end()), second);
}

TEST_F(BackupFileTest, HasNoName) {
  const auto file = BackupFile::make(directory_, 10000);
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(std::filesystem::is_empty(directory_));
}

TEST_F(BackupFileTest, MoreThanTheDiskHasIsRefusedWithNumbers) {
  const auto file = BackupFile::make(directory_, size_t{1} << 60);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().kind, ErrorKind::os);
  EXPECT_NE(
      file.error().message.find("1152921504606846976 bytes) of a backup file in " + directory_),
      std::string::npos)
      << file.error().message;
}

TEST_F(BackupFileTest, DirectoryThatDoesNotExistIsRefused) {
  BackupDirectory directory;
  ASSERT_TRUE(directory.set(directory_).ok());
  const Status refused = directory.set(directory_ + "/none");
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find(directory_ + "/none"), std::string::npos);
  EXPECT_EQ(directory.path(), directory_);
}

TEST_F(BackupFileTest, BytesThatWereNeverWrittenAreAnError) {
  const auto file = BackupFile::make(directory_, 4096);
  ASSERT_TRUE(file.ok());
  unsigned char byte = 0;
  EXPECT_EQ(file.value()->read(8192, &byte, 1).error().kind, ErrorKind::os);
}

TEST_F(BackupFileTest, WriteThatFailsIsAnError) {
  const auto file = BackupFile::make(directory_, 4096);
  ASSERT_TRUE(file.ok());
  const FileSizeLimit small(8192);
  const std::vector<unsigned char> data(16384);
  const Status written = file.value()->write(0, data.data(), data.size());
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.error().code, EFBIG);
}

TEST_F(BackupFileTest, ErrorOfAWriteIsThatOfTheWriteWithoutTheDirectory) {
  const auto file = BackupFile::make(directory_, 4096);
  ASSERT_TRUE(file.ok());
  std::filesystem::remove_all(directory_);
  const FileSizeLimit small(8192);
  const std::vector<unsigned char> data(16384);
  EXPECT_EQ(file.value()->write(0, data.data(), data.size()).error().code, EFBIG);
}

}  // namespace
}  // namespace amem
