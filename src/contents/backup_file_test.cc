// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "contents/backup_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/support/file_calls.h"
#include "tests/support/file_size_limit.h"

namespace amem {
namespace {

class BackupFileTest : public testing::Test {
 protected:
  BackupFileTest() { std::filesystem::create_directory(directory_); }
  ~BackupFileTest() override { std::filesystem::remove_all(directory_); }

  /// Changes bytes of the file as another program can through /proc/PID/fd.
  void modify(const std::function<int(int)>& change) {
    bool changed = false;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code error;
      const std::string target = std::filesystem::read_symlink(entry.path(), error);
      if (target.rfind(directory_, 0) != 0) continue;
      const UniqueFd file(open(entry.path().c_str(), O_RDWR));
      changed = file.valid() && change(file.get()) >= 0;
      if (changed) break;
    }
    EXPECT_TRUE(changed);
  }
  static std::vector<unsigned char> random_bytes(size_t count) {
    std::vector<unsigned char> bytes(count);
    unsigned random = 1;
    for (unsigned char& byte : bytes)
      byte = static_cast<unsigned char>((random = random * 1664525u + 1013904223u) >> 24);
    return bytes;
  }

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

// Blocks are smaller than what is written, and reads begin and end inside.
TEST_F(BackupFileTest, ReadsAnyPartOfWhatWasWritten) {
  const std::vector<unsigned char> bytes = random_bytes((5 << 20) + 12345);
  const auto file = BackupFile::make(directory_, bytes.size() + 4096);
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file.value()->write(4096, bytes.data(), bytes.size()).ok());
  for (const size_t begin : {size_t{0}, size_t{1}, size_t{1} << 20, (size_t{3} << 20) + 77})
    for (const size_t count : {size_t{1}, size_t{1} << 20, (size_t{2} << 20) + 5}) {
      std::vector<unsigned char> found(count);
      ASSERT_TRUE(file.value()->read(4096 + begin, found.data(), count).ok());
      EXPECT_TRUE(std::equal(found.begin(), found.end(), bytes.begin() + static_cast<long>(begin)));
    }
  unsigned char byte = 0;
  EXPECT_EQ(file.value()->read(4095, &byte, 1).error().code, EIO);
  EXPECT_EQ(file.value()->read(4096 + bytes.size(), &byte, 1).error().code, EIO);
}

TEST_F(BackupFileTest, ShortReadsAndWritesContinueWhereTheyEnded) {
  FileCalls calls;
  calls.pread = [](int file, void* to, size_t count, off_t offset) {
    return FileCalls::real_pread(file, to, std::min<size_t>(count, 1000), offset);
  };
  calls.pwrite = [](int file, const void* from, size_t count, off_t offset) {
    return FileCalls::real_pwrite(file, from, std::min<size_t>(count, 3333), offset);
  };
  const std::vector<unsigned char> bytes = random_bytes(100'001);
  const auto file = BackupFile::make(directory_, bytes.size());
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file.value()->write(0, bytes.data(), bytes.size()).ok());
  std::vector<unsigned char> found(bytes.size());
  ASSERT_TRUE(file.value()->read(0, found.data(), found.size()).ok());
  EXPECT_EQ(found, bytes);
}

TEST_F(BackupFileTest, InterruptedCallsAreRepeatedButNotWithoutLimit) {
  FileCalls calls;
  int interrupts = 3;
  const auto interrupted = [&] {
    errno = EINTR;
    return interrupts-- > 0;
  };
  calls.fallocate = [&](int, int, off_t, off_t) { return interrupted() ? -1 : 0; };
  calls.pwrite = [&](int file, const void* from, size_t count, off_t offset) {
    return interrupted() ? -1 : FileCalls::real_pwrite(file, from, count, offset);
  };
  calls.pread = [&](int file, void* to, size_t count, off_t offset) {
    return interrupted() ? -1 : FileCalls::real_pread(file, to, count, offset);
  };
  const auto file = BackupFile::make(directory_, 1);
  ASSERT_TRUE(file.ok());
  unsigned char byte = 7;
  interrupts = 3;
  ASSERT_TRUE(file.value()->write(0, &byte, 1).ok());
  interrupts = 3;
  ASSERT_TRUE(file.value()->read(0, &byte, 1).ok());
  EXPECT_EQ(byte, 7);
  for (int call = 0; call < 3; ++call) {
    interrupts = 1 << 30;
    const Status status = call == 0   ? file.value()->write(1, &byte, 1)
                          : call == 1 ? file.value()->read(0, &byte, 1)
                                      : Status(BackupFile::make(directory_, 1).error());
    EXPECT_EQ(status.error().code, EINTR);
  }
}

TEST_F(BackupFileTest, BytesThatAnotherProgramHasChangedAreAnError) {
  const std::vector<unsigned char> bytes = random_bytes(3 << 20);
  const auto file = BackupFile::make(directory_, bytes.size());
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file.value()->write(0, bytes.data(), bytes.size()).ok());
  std::vector<unsigned char> found(bytes.size());
  const auto read = [&] { return file.value()->read(0, found.data(), found.size()); };
  ASSERT_TRUE(read().ok());

  const auto flipped = static_cast<unsigned char>(bytes[(1 << 20) + 7] ^ 1);
  modify([&](int fd) { return pwrite(fd, &flipped, 1, (1 << 20) + 7); });
  const Status modified = read();
  ASSERT_FALSE(modified.ok());
  EXPECT_EQ(modified.error().code, EIO);
  EXPECT_NE(modified.error().message.find("at offset 1048576) of a backup file in " + directory_ +
                                          " does not return what amem has written"),
            std::string::npos)
      << modified.error().message;
  EXPECT_TRUE(file.value()->read(0, found.data(), 1 << 20).ok()) << "of another block";
  unsigned char byte = 0;
  EXPECT_FALSE(file.value()->read((1 << 20) + 1, &byte, 1).ok()) << "of the same block";

  modify([&](int fd) { return pwrite(fd, &bytes[(1 << 20) + 7], 1, (1 << 20) + 7); });
  EXPECT_TRUE(read().ok());
  modify([](int fd) {
    return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 2 << 20, 4096);
  });
  EXPECT_FALSE(read().ok());
  modify([](int fd) { return ftruncate(fd, 12345); });
  EXPECT_FALSE(read().ok());
}

// A program that closes all descriptors and opens its own files.
TEST_F(BackupFileTest, FileOfTheApplicationThatHasTakenItsNumberStaysAsItIs) {
  auto file = BackupFile::make(directory_, 4096);
  ASSERT_TRUE(file.ok());
  int number = -1;
  modify([&](int same) {
    struct stat wanted {
    }, found{};
    fstat(same, &wanted);
    for (int fd = 3; fd < same; ++fd)
      if (fstat(fd, &found) == 0 && found.st_ino == wanted.st_ino) number = fd;
    return number;
  });
  const std::string path = directory_ + "/own";
  const UniqueFd own(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(dup2(own.get(), number), number);
  ASSERT_EQ(write(number, "own", 3), 3);
  file.value().reset();
  EXPECT_EQ(std::filesystem::file_size(path), 3u);
  EXPECT_EQ(close(number), 0) << "it is open";
}

TEST_F(BackupFileTest, HasNoName) {
  const auto file = BackupFile::make(directory_, 10000);
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(std::filesystem::is_empty(directory_));
}

/// Files in the directory of the test.
std::vector<std::filesystem::path> files_in(const std::string& directory) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    files.push_back(entry.path());
  return files;
}

TEST_F(BackupFileTest, HasANameWhereItsPathIsATemplate) {
  const std::vector<unsigned char> bytes = random_bytes(5000);
  auto file = BackupFile::make(directory_ + "/step-7-XXXXXX", bytes.size());
  const auto other = BackupFile::make(directory_ + "/step-7-XXXXXX", 1);
  ASSERT_TRUE(file.ok() && other.ok());
  EXPECT_EQ(files_in(directory_).size(), 2u) << "no file takes the name of another";
  ASSERT_TRUE(file.value()->write(0, bytes.data(), bytes.size()).ok());

  std::filesystem::path path;
  for (const auto& each : files_in(directory_))
    if (std::filesystem::file_size(each) == bytes.size()) path = each;
  EXPECT_TRUE(path.filename().string().starts_with("step-7-")) << path;
  EXPECT_EQ(std::filesystem::status(path).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  std::ifstream stream(path, std::ios::binary);
  EXPECT_EQ(std::vector<unsigned char>(std::istreambuf_iterator<char>(stream), {}), bytes);
  file.value().reset();
  EXPECT_EQ(files_in(directory_).size(), 1u) << "it leaves with its last user";
}

TEST_F(BackupFileTest, FileThatAnotherProgramHasMovedOrLinkedIsNotItsOwn) {
  const std::filesystem::path moved = directory_ + "/moved", linked = directory_ + "/linked";
  for (const auto& kept : {moved, linked}) {
    auto file = BackupFile::make(directory_ + "/step-7-XXXXXX", 4096);
    ASSERT_TRUE(file.ok());
    const std::filesystem::path path = files_in(directory_ + "/").front();
    kept == moved ? rename(path, kept) : create_hard_link(path, kept);
    if (kept == moved) std::ofstream(path) << "of the program";

    file.value().reset();

    EXPECT_EQ(std::filesystem::file_size(kept), 4096u);
    EXPECT_EQ(std::filesystem::exists(path), kept == moved);
    std::filesystem::remove(kept);
    std::filesystem::remove(path);
  }
}

TEST_F(BackupFileTest, WithANameKeepsItWhenAChildDropsIt) {
  auto file = BackupFile::make(directory_ + "/XXXXXX", 4096);
  ASSERT_TRUE(file.ok());
  const pid_t child = fork();
  if (child == 0) {
    file.value().reset();
    _exit(0);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_EQ(files_in(directory_).size(), 1u);
}

TEST_F(BackupFileTest, NameThatIsTriedLeavesNoFileAndDoesNotFollowTheWorkingDirectory) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(directory_);
  BackupDirectory directory;
  EXPECT_TRUE(directory.set("contents-XXXXXX").ok());
  std::filesystem::current_path(before);

  EXPECT_TRUE(std::filesystem::is_empty(directory_));
  EXPECT_EQ(std::filesystem::path(directory.path()).parent_path(), directory_);
  const Status failed = directory.set(directory_ + "/none/XXXXXX");
  ASSERT_FALSE(failed.ok());
  EXPECT_NE(failed.error().message.find(directory_ + "/none/XXXXXX"), std::string::npos);
}

size_t blocks_of(int fd) {
  struct stat file {};
  EXPECT_EQ(fstat(fd, &file), 0);
  return static_cast<size_t>(file.st_blocks);
}

/// The number of the descriptor that was opened last, which a child inherits.
int last_descriptor() {
  const int next = dup(STDIN_FILENO);
  close(next);
  return next - 1;
}

// The disk would be full until the child ends, and the next pause would be refused.
TEST_F(BackupFileTest, TakesNoRoomAfterItsLastUserAlthoughAChildHoldsIt) {
  auto file = BackupFile::make(directory_, 1 << 20);
  ASSERT_TRUE(file.ok());
  const int held = dup(last_descriptor());  // as a child of clone(2) holds it
  ASSERT_GE(blocks_of(held), (1u << 20) / 512);

  file.value().reset();

  EXPECT_EQ(blocks_of(held), 0u);
  close(held);
}

TEST_F(BackupFileTest, StaysWholeWhenAChildDropsIt) {
  auto file = BackupFile::make(directory_, 4096);
  ASSERT_TRUE(file.ok());
  const std::vector<unsigned char> written(4096, 7);
  ASSERT_TRUE(file.value()->write(0, written.data(), written.size()).ok());
  const pid_t child = fork();
  if (child == 0) {
    file.value().reset();
    _exit(0);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);

  std::vector<unsigned char> found(4096);
  EXPECT_TRUE(file.value()->read(0, found.data(), found.size()).ok());
  EXPECT_EQ(found, written);
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
