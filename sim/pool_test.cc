// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sim/pool.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <thread>
#include <vector>

namespace amem::sim {
namespace {

constexpr uint64_t kPiece = kGranularityBytes;
constexpr uint64_t kCapacityBytes = 16 * kPiece;

/// A folder with one pool, whose state forked children share.
class PoolTest : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/dev/shm/amem-pool-test-XXXXXX";
    ASSERT_NE(nullptr, mkdtemp(pattern));
    folder_ = pattern;
    state_fd_ = UniqueFd(open((folder_ + "/state").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    void* shared =
        mmap(nullptr, sizeof(PoolState), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(MAP_FAILED, shared);
    state_ = static_cast<PoolState*>(shared);
    ASSERT_TRUE(pool_.open(folder_ + "/gpu", kCapacityBytes, state_, state_fd_.get(), 0));
  }
  void TearDown() override {
    munmap(state_, sizeof(PoolState));
    std::filesystem::remove_all(folder_);
  }

  UniqueFd allocate(uint64_t size_bytes, uint64_t* offset_bytes = nullptr) {
    UniqueFd description;
    uint64_t offset = 0;
    EXPECT_EQ(kSuccess, pool_.allocate(size_bytes, false, &description, &offset));
    if (offset_bytes != nullptr) *offset_bytes = offset;
    return description;
  }

  static void* map(const UniqueFd& description, uint64_t offset_bytes) {
    return mmap(nullptr, kPiece, PROT_READ | PROT_WRITE, MAP_SHARED, description.get(),
                static_cast<off_t>(offset_bytes));
  }

  std::string folder_;
  UniqueFd state_fd_;
  PoolState* state_ = nullptr;
  Pool pool_;
};

TEST_F(PoolTest, MemoryLivesWithItsDescriptor) {
  UniqueFd description = allocate(3 * kPiece);
  EXPECT_EQ(3 * kPiece, pool_.used_bytes());
  EXPECT_FALSE(pool_.unused());

  UniqueFd copy(dup(description.get()));
  description.reset();
  EXPECT_EQ(3 * kPiece, pool_.used_bytes());

  copy.reset();
  EXPECT_EQ(0u, pool_.used_bytes());
  EXPECT_TRUE(pool_.unused());
}

// The rule of the kernel that everything else rests on.
TEST_F(PoolTest, MemoryLivesInItsMappingAlone) {
  uint64_t offset = 0;
  UniqueFd description = allocate(kPiece, &offset);
  void* address = map(description, offset);
  ASSERT_NE(MAP_FAILED, address);

  description.reset();
  EXPECT_EQ(kPiece, pool_.used_bytes());

  munmap(address, kPiece);
  EXPECT_EQ(0u, pool_.used_bytes());
}

TEST_F(PoolTest, MemoryLivesInASocket) {
  int ends[2];
  ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
  UniqueFd sender(ends[0]);
  UniqueFd receiver(ends[1]);
  UniqueFd description = allocate(kPiece);
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  *reinterpret_cast<int*>(CMSG_DATA(header)) = description.get();
  ASSERT_EQ(1, sendmsg(sender.get(), &message, 0));

  description.reset();
  EXPECT_EQ(kPiece, pool_.used_bytes());

  receiver.reset();
  sender.reset();
  EXPECT_EQ(0u, pool_.used_bytes());
}

TEST_F(PoolTest, MemoryOfAKilledProcessIsFree) {
  uint64_t offset = 0;
  UniqueFd description = allocate(kPiece, &offset);
  const pid_t child = fork();
  if (child == 0) {
    map(description, offset);
    for (;;) pause();
  }
  description.reset();
  ASSERT_EQ(kPiece, pool_.used_bytes()) << "the child has a copy of the descriptor";

  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);

  EXPECT_EQ(0u, pool_.used_bytes());
}

TEST_F(PoolTest, RefusesMoreThanItsCapacity) {
  UniqueFd most = allocate(kCapacityBytes - kPiece);
  UniqueFd description;
  uint64_t offset = 0;

  EXPECT_EQ(kErrorOutOfMemory, pool_.allocate(2 * kPiece, false, &description, &offset));
  EXPECT_EQ(kSuccess, pool_.allocate(kPiece, false, &description, &offset));

  description.reset();
  most.reset();
  EXPECT_EQ(kErrorOutOfMemory,
            pool_.allocate(kCapacityBytes + kPiece, false, &description, &offset));
  EXPECT_EQ(kSuccess, pool_.allocate(kCapacityBytes, false, &description, &offset));
}

TEST_F(PoolTest, FindsRoomBetweenFragments) {
  std::vector<UniqueFd> pieces;
  for (uint64_t used = 0; used < kCapacityBytes; used += kPiece) pieces.push_back(allocate(kPiece));
  for (size_t i = 0; i < pieces.size(); i += 2) pieces[i].reset();

  const UniqueFd large = allocate(kCapacityBytes / 2);

  EXPECT_EQ(kCapacityBytes, pool_.used_bytes());
}

TEST_F(PoolTest, HandsOutZerosForEver) {
  for (int round = 0; round < 200; ++round) {  // more than once around the file
    uint64_t offset = 0;
    const UniqueFd description = allocate(kCapacityBytes, &offset);
    auto* bytes = static_cast<char*>(map(description, offset));
    ASSERT_NE(MAP_FAILED, static_cast<void*>(bytes));
    ASSERT_EQ(0, bytes[0]) << "round " << round;
    bytes[0] = 1;
    munmap(bytes, kPiece);
  }
}

TEST_F(PoolTest, GivesFreedPagesBackToTheHost) {
  for (int round = 0; round < 100; ++round) {
    uint64_t offset = 0;
    const UniqueFd description = allocate(kPiece, &offset);
    void* address = map(description, offset);
    ASSERT_NE(MAP_FAILED, address);
    std::fill_n(static_cast<char*>(address), kPiece, 'x');
    munmap(address, kPiece);
  }
  struct stat info;
  ASSERT_EQ(0, stat((folder_ + "/gpu").c_str(), &info));

  EXPECT_LE(static_cast<uint64_t>(info.st_blocks) * 512, kCapacityBytes);
}

TEST_F(PoolTest, TellsWhatWasWritten) {
  uint64_t offset = 0;
  const UniqueFd description = allocate(kPiece, &offset);
  EXPECT_FALSE(pool_.extent_at(offset).has_pages);
  void* address = map(description, offset);
  ASSERT_NE(MAP_FAILED, address);
  static_cast<char*>(address)[kPiece / 2] = 'x';
  munmap(address, kPiece);

  const Pool::Extent before = pool_.extent_at(offset);
  EXPECT_FALSE(before.has_pages);
  EXPECT_EQ(offset + kPiece / 2, before.end_bytes);
  EXPECT_TRUE(pool_.extent_at(before.end_bytes).has_pages);
}

TEST_F(PoolTest, DescribesItsDescriptors) {
  UniqueFd first = allocate(kPiece);
  UniqueFd description;
  uint64_t offset = 0;
  ASSERT_EQ(kSuccess, pool_.allocate(3 * kPiece, true, &description, &offset));

  const UniqueFd copy(dup(description.get()));
  const auto range = pool_.describe(copy.get());

  ASSERT_TRUE(range.has_value());
  EXPECT_EQ(offset, range->offset_bytes);
  EXPECT_EQ(3 * kPiece, range->size_bytes);
  EXPECT_TRUE(range->gpu_direct_rdma_capable);
  EXPECT_FALSE(pool_.describe(first.get())->gpu_direct_rdma_capable);
}

TEST_F(PoolTest, DoesNotDescribeOthersDescriptors) {
  const UniqueFd other(open((folder_ + "/other").c_str(), O_RDWR | O_CREAT, 0600));
  const UniqueFd unlocked(open((folder_ + "/gpu").c_str(), O_RDWR));

  EXPECT_FALSE(pool_.describe(other.get()).has_value());
  EXPECT_FALSE(pool_.describe(unlocked.get()).has_value());
  EXPECT_FALSE(pool_.describe(-1).has_value());
}

TEST_F(PoolTest, SharesTheCapacityBetweenProcesses) {
  constexpr int kProcesses = 4;
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      // Its own view: a description of the state file and a pool object of its own.
      const UniqueFd state_fd(open((folder_ + "/state").c_str(), O_RDWR));
      Pool pool;
      bool good = pool.open(folder_ + "/gpu", kCapacityBytes, state_, state_fd.get(), 0);
      UniqueFd description;  // of the round before, so that there is always some in use
      for (int round = 0; good && round < 500; ++round) {
        uint64_t offset = 0;
        const CuResult result = pool.allocate(kCapacityBytes / 2, false, &description, &offset);
        good = (result == kSuccess || result == kErrorOutOfMemory) &&
               pool.used_bytes() <= kCapacityBytes;
      }
      _exit(good ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(0, status);
  }
  EXPECT_EQ(0u, pool_.used_bytes());
}

}  // namespace
}  // namespace amem::sim
