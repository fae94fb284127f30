// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Pools of several processes that use the same memory in turn.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "contents/host_pool.h"

namespace amem {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr int kDevice = 0, kNode = 0;
constexpr size_t kPart = 64 * kMiB;  ///< the size of a region that needs less

std::atomic<int> g_registrations{0};
std::atomic<DriverResult> g_result{driver_result::kSuccess};

/// A pool of this process, and others that it asks.
class Pool {
 public:
  explicit Pool(size_t limit_bytes = 0, size_t keep_bytes = 0)
      : pool_(driver(), limit_bytes, keep_bytes, [this](size_t wanted, int numa_node) {
          ++asked;
          std::vector<UniqueFd> all;
          for (const auto& other : others)
            for (UniqueFd& file : other(wanted, numa_node)) all.push_back(std::move(file));
          return all;
        }) {}
  HostPool* operator->() { return &pool_; }

  /// A pause and its end: a block with this content.
  HostBlock save(size_t size_bytes, int content, int device = kDevice) {
    EXPECT_TRUE(pool_.reserve(size_bytes, device).ok());
    HostBlock block = pool_.take(size_bytes);
    EXPECT_NE(block, nullptr);
    if (block != nullptr)
      for (const HostExtent& extent : *block) memset(extent.base, content, extent.size_bytes);
    pool_.lend();
    return block;
  }
  HostPool::Offer offers() {
    return [this](size_t wanted, int numa_node) { return pool_.offer(wanted, numa_node); };
  }

  std::vector<HostPool::Offer> others;
  int asked = 0;

 private:
  static const Driver& driver() {
    static const Driver stub = [] {
      Driver made{};
      made.cuGetErrorName = [](DriverResult, const char** name) {
        *name = "CUDA_ERROR_OUT_OF_MEMORY";
        return driver_result::kSuccess;
      };
      made.cuMemHostRegister_v2 = [](void*, size_t, unsigned) {
        if (g_result == driver_result::kSuccess) ++g_registrations;
        return g_result.load();
      };
      made.cuMemHostUnregister = [](void*) { return driver_result::kSuccess; };
      // The GPU with this number is beside that node.
      made.cuDeviceGetAttribute = [](int* node, int, int device) {
        *node = kNode + device;
        return driver_result::kSuccess;
      };
      return made;
    }();
    return stub;
  }

  HostPool pool_;
};

bool holds(const HostBlock& block, int content) {
  for (const HostExtent& extent : *block)
    if (extent.base[0] != content ||
        memcmp(extent.base, extent.base + 1, extent.size_bytes - 1) != 0)
      return false;
  return true;
}

struct OpenSegment {
  std::string path;
  size_t size_bytes;  ///< of its pages
};

/// The segments that a process has open, by inode.
std::map<ino_t, OpenSegment> segments_of(const std::string& process) {
  std::map<ino_t, OpenSegment> all;
  for (const auto& file : std::filesystem::directory_iterator("/proc/" + process + "/fd")) {
    struct stat found {};
    std::error_code gone;
    const std::string name = std::filesystem::read_symlink(file.path(), gone);
    if (name.starts_with("/memfd:amem-host") && stat(file.path().c_str(), &found) == 0)
      all[found.st_ino] = {file.path(), static_cast<size_t>(found.st_blocks) * 512};
  }
  return all;
}

size_t segment_bytes() {
  size_t sum = 0;
  for (const auto& [inode, segment] : segments_of("self")) sum += segment.size_bytes;
  return sum;
}

size_t count_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

class HostLending : public testing::Test {
 protected:
  HostLending() {
    g_registrations = 0;
    g_result = driver_result::kSuccess;
    trainer_.others = {engine_.offers()};
    engine_.others = {trainer_.offers()};
  }

  Pool trainer_, engine_;
};

TEST_F(HostLending, PoolsThatAlternateUseTheMemoryOfOne) {
  constexpr size_t kBytes = 150 * kMiB;
  for (int cycle = 0; cycle < 4; ++cycle) {
    const int content = 2 * cycle;
    {
      const HostBlock weights = trainer_.save(kBytes, content);
      EXPECT_TRUE(holds(weights, content));
    }
    const HostBlock cache = engine_.save(kBytes, content + 1);
    EXPECT_TRUE(holds(cache, content + 1));
    EXPECT_EQ(segment_bytes(), kBytes);
  }
  EXPECT_EQ(g_registrations, 4) << "two segments, in each process once";
  EXPECT_EQ(engine_.asked, 1);
  EXPECT_EQ(trainer_.asked, 1) << "before it had memory";
}

TEST_F(HostLending, MemoryInUseStaysWithItsPool) {
  const HostBlock weights = trainer_.save(kPart, 1), cache = engine_.save(kPart, 2);

  EXPECT_TRUE(holds(weights, 1));
  EXPECT_TRUE(holds(cache, 2));
  EXPECT_EQ(segment_bytes(), 2 * kPart);
  EXPECT_EQ(trainer_->use().held_bytes, kPart);
  EXPECT_EQ(engine_->use().held_bytes, kPart);
  EXPECT_EQ(engine_->use().borrowed_bytes, 0u);
}

TEST_F(HostLending, WhatIsMissingIsAllocated) {
  { const HostBlock weights = trainer_.save(kPart, 1); }

  const HostBlock cache = engine_.save(3 * kPart, 2);

  EXPECT_TRUE(holds(cache, 2));
  EXPECT_EQ(segment_bytes(), 3 * kPart);
  EXPECT_EQ(engine_->use().borrowed_bytes, kPart);
  EXPECT_EQ(trainer_.save(kPart, 3)->size(), 1u);
  EXPECT_TRUE(holds(cache, 2));
  EXPECT_EQ(segment_bytes(), 4 * kPart);
}

TEST_F(HostLending, EachOfTwoThatAskIsOfferedOtherMemory) {
  { const HostBlock weights = trainer_.save(2 * kPart, 1); }

  const auto first = trainer_->offer(1, kNode), second = trainer_->offer(1, kNode);

  ASSERT_EQ(first.size(), 1u);
  ASSERT_EQ(second.size(), 1u);
  EXPECT_NE(open_segment(first[0].get()).inode, open_segment(second[0].get()).inode);
  EXPECT_EQ(trainer_->offer(SIZE_MAX, kNode).size(), 2u);
  EXPECT_TRUE(trainer_->offer(SIZE_MAX, kNode + 1).empty()) << "another NUMA node";
}

// On Grace the memory of another node is three times slower.
TEST_F(HostLending, MemoryIsOfTheNodeOfItsGpu) {
  { const HostBlock of_gpu_0 = trainer_.save(kPart, 1, 0); }

  const HostBlock of_gpu_1 = engine_.save(kPart, 2, 1);

  EXPECT_EQ(engine_->use().borrowed_bytes, 0u) << "it is beside the other GPU";
  EXPECT_EQ(trainer_->offer(SIZE_MAX, kNode).size(), 1u);
  const HostBlock again = trainer_.save(kPart, 3, 0);
  constexpr int kPolicyPreferred = 1;  // MPOL_PREFERRED
  constexpr unsigned kOfAddress = 2;   // MPOL_F_ADDR
  int policy = kPolicyPreferred;
  unsigned long nodes[16] = {1};
  // Fails where a container does not let policies be read.
  (void)syscall(SYS_get_mempolicy, &policy, nodes, 8 * sizeof nodes, again->front().base,
                kOfAddress);
  EXPECT_EQ(policy, kPolicyPreferred);
  EXPECT_EQ(nodes[0], 1u);
}

TEST_F(HostLending, ReservedMemoryIsNotLentBeforeItHoldsABlock) {
  ASSERT_TRUE(trainer_->reserve(kPart, kDevice).ok());
  EXPECT_TRUE(trainer_->offer(1, kNode).empty());
  { const HostBlock block = trainer_->take(kMiB); }
  EXPECT_TRUE(trainer_->offer(1, kNode).empty()) << "the pause goes on";
  EXPECT_EQ(trainer_->free_bytes(), kPart);

  trainer_->lend();

  EXPECT_EQ(trainer_->offer(1, kNode).size(), 1u);
  EXPECT_EQ(trainer_->free_bytes(), 0u);
  EXPECT_EQ(trainer_->capacity_bytes(), kPart) << "it stays pinned";
}

TEST_F(HostLending, KeptMemoryIsNotLent) {
  Pool keeping(0, kPart + kMiB);
  { const HostBlock block = keeping.save(3 * kPart, 1); }

  EXPECT_EQ(keeping->offer(SIZE_MAX, kNode).size(), 1u);
  EXPECT_EQ(keeping->use().held_bytes, 2 * kPart);
  EXPECT_EQ(keeping->use().idle_bytes, kPart);
}

TEST_F(HostLending, LimitCountsWhatIsUsed) {
  { const HostBlock weights = trainer_.save(kPart, 1); }
  Pool small(32 * kMiB), large(kPart);
  small.others = large.others = {trainer_.offers()};

  EXPECT_NE(small.save(20 * kMiB, 2), nullptr);
  EXPECT_EQ(small->use().held_bytes, 0u) << "the block is gone";
  EXPECT_EQ(small->capacity_bytes(), 32 * kMiB) << "not the segment, which is larger";
  EXPECT_FALSE(small->reserve(33 * kMiB, kDevice).ok());
  const HostBlock own = large.save(kPart, 3);
  EXPECT_EQ(large->use().borrowed_bytes, kPart);
  EXPECT_FALSE(large->reserve(kMiB, kDevice).ok());
  EXPECT_TRUE(trainer_->reserve(kPart, kDevice).ok()) << "without the lent memory";
}

TEST_F(HostLending, WrongDescriptorsAreNotUsed) {
  engine_.others = {[](size_t, int) {
    std::vector<UniqueFd> offer;
    offer.emplace_back(open("/dev/null", O_RDWR | O_CLOEXEC));
    offer.emplace_back(memfd_create("test", MFD_CLOEXEC));
    offer.emplace_back();
    return offer;
  }};
  const size_t fds = count_descriptors();

  EXPECT_TRUE(holds(engine_.save(kPart, 1), 1));

  EXPECT_EQ(engine_->use().borrowed_bytes, 0u);
  EXPECT_EQ(engine_.asked, 1);
  EXPECT_EQ(count_descriptors(), fds + 1);
}

TEST_F(HostLending, SameSegmentOfTwoProcessesIsUsedOnce) {
  { const HostBlock weights = trainer_.save(kPart, 1); }
  engine_.others = {trainer_.offers(), trainer_.offers()};

  ASSERT_TRUE(engine_->prepare(2 * kPart, kDevice).ok());

  EXPECT_EQ(segment_bytes(), 2 * kPart);
  EXPECT_EQ(engine_->capacity_bytes(), 2 * kPart);
}

TEST_F(HostLending, PreparedMemoryIsPinnedAndNotHeld) {
  { const HostBlock weights = trainer_.save(kPart, 1); }
  const int before = g_registrations;

  ASSERT_TRUE(engine_->prepare(kPart, kDevice).ok());

  EXPECT_EQ(g_registrations, before + 1);
  EXPECT_EQ(engine_->use().held_bytes, 0u);
  EXPECT_EQ(engine_->use().idle_bytes, kPart);
  EXPECT_TRUE(holds(trainer_.save(kPart, 2), 2));
  EXPECT_TRUE(holds(engine_.save(kPart, 3), 3));
  EXPECT_EQ(g_registrations, before + 1);
  EXPECT_EQ(segment_bytes(), kPart);
}

TEST_F(HostLending, MemoryThatCannotBePinnedIsReturned) {
  { const HostBlock weights = trainer_.save(kPart, 1); }
  g_result = driver_result::kOutOfMemory;

  EXPECT_FALSE(engine_->reserve(kPart, kDevice).ok());

  EXPECT_EQ(engine_->capacity_bytes(), 0u);
  EXPECT_TRUE(holds(trainer_.save(kPart, 2), 2)) << "nobody else holds it";
  EXPECT_EQ(segment_bytes(), kPart);
}

TEST_F(HostLending, TrimOfItsCreatorLeavesABorrowedBlock) {
  { const HostBlock weights = trainer_.save(kPart, 1); }
  const HostBlock cache = engine_.save(kPart, 2);

  EXPECT_EQ(trainer_->trim(), kPart);

  EXPECT_TRUE(holds(cache, 2));
  EXPECT_EQ(trainer_->capacity_bytes(), 0u);
  EXPECT_EQ(engine_->trim(), 0u);
  EXPECT_TRUE(trainer_->offer(1, kNode).empty());
}

TEST_F(HostLending, AllIsFreedWhenTheLastPoolTrims) {
  { const HostBlock weights = trainer_.save(kPart, 1); }
  { const HostBlock cache = engine_.save(kPart, 2); }

  EXPECT_EQ(trainer_->trim(), kPart);
  EXPECT_EQ(segment_bytes(), kPart);
  EXPECT_EQ(engine_->trim(), kPart);

  EXPECT_EQ(segment_bytes(), 0u);
}

// --- Several processes

/// A child process that does this work with pools of its own. It says 'y' when `work` has returned
/// true, and waits to be killed.
class Child {
 public:
  explicit Child(const std::function<bool()>& work) {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    pid_ = fork();
    if (pid_ == 0) {
      const char done = work() ? 'y' : 'n';
      _exit(write(ends[1], &done, 1) == 1 ? pause() : 1);
    }
    close(ends[1]);
    char done = 0;
    EXPECT_EQ(read(ends[0], &done, 1), 1);
    EXPECT_EQ(done, 'y');
    close(ends[0]);
  }
  ~Child() { end(); }
  pid_t pid() const { return pid_; }
  void stop() {
    EXPECT_EQ(kill(pid_, SIGSTOP), 0);
    EXPECT_EQ(waitpid(pid_, nullptr, WUNTRACED), pid_);
  }
  void end() {
    if (pid_ <= 0) return;
    EXPECT_EQ(kill(pid_, SIGKILL), 0);
    EXPECT_EQ(waitpid(pid_, nullptr, 0), pid_);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
};

/// What a process lends, without asking it: its segments.
HostPool::Offer segments_of_process(pid_t pid) {
  return [pid](size_t, int) {
    std::vector<UniqueFd> offer;
    for (const auto& [inode, segment] : segments_of(std::to_string(pid)))
      offer.emplace_back(open(segment.path.c_str(), O_RDWR | O_CLOEXEC));
    return offer;
  };
}

class HostLendingProcess : public HostLending {};

TEST_F(HostLendingProcess, KilledBorrowerReturnsWhatItUsed) {
  { const HostBlock weights = trainer_.save(kPart, 1); }
  const HostPool::Offer lent = segments_of_process(getpid());
  Child child([&] {
    static Pool pool;  // until it is killed
    pool.others = {lent};
    static HostBlock block;
    block = pool.save(kPart, 2);
    return pool->use().borrowed_bytes == kPart && holds(block, 2);
  });
  EXPECT_EQ(trainer_->claim(kPart), kPart) << "it is in use";
  trainer_->lend();
  EXPECT_EQ(trainer_->use().idle_bytes, 0u);
  child.stop();
  EXPECT_EQ(trainer_->claim(kPart), kPart) << "by a process that is stopped";
  trainer_->lend();

  child.end();

  // The kernel may close its files later, such as while another process reads its files in /proc.
  const Deadline soon = Deadline::after_ms(10000);
  while (trainer_->use().idle_bytes != kPart && !soon.passed()) std::this_thread::yield();
  EXPECT_EQ(trainer_->use().idle_bytes, kPart);
  EXPECT_TRUE(holds(trainer_.save(kPart, 3), 3));
  EXPECT_EQ(segment_bytes(), kPart);
}

TEST_F(HostLendingProcess, BorrowedMemoryOutlivesItsCreator) {
  Child child([] {
    static Pool pool;
    { const HostBlock weights = pool.save(kPart, 1); }
    return pool->use().idle_bytes == kPart;
  });
  engine_.others = {segments_of_process(child.pid())};
  const HostBlock cache = engine_.save(kPart, 2);
  ASSERT_EQ(engine_->use().borrowed_bytes, kPart);

  child.end();

  EXPECT_TRUE(holds(cache, 2));
  EXPECT_TRUE(holds(trainer_.save(kPart, 3), 3)) << "new memory: that of the engine is in use";
  EXPECT_TRUE(holds(cache, 2));
  EXPECT_EQ(segment_bytes(), 2 * kPart);
}

// It may die before it has written anything, or while it is paused.
TEST_F(HostLendingProcess, MemoryInUseIsNotTakenUntilItsProcessIsKilled) {
  for (const bool is_written : {false, true}) {
    Child child([&] {
      static Pool pool;
      static HostBlock weights;
      if (is_written) weights = pool.save(kPart, 1);
      return is_written || pool->reserve(kPart, kDevice).ok();
    });
    Pool pool;
    pool.others = {segments_of_process(child.pid())};
    const HostBlock before = pool.save(kPart, 2);
    EXPECT_EQ(pool->use().borrowed_bytes, 0u);
    const auto lent = segments_of_process(child.pid())(0, kNode);

    child.end();

    ASSERT_EQ(lent.size(), 1u);
    EXPECT_NE(hold_segment(open_segment(lent[0].get())), nullptr);
    EXPECT_TRUE(holds(before, 2));
  }
}

// What a process needs is not refused for want of descriptors.
TEST_F(HostLendingProcess, WithFewDescriptorsMemoryIsPrivate) {
  Child child([] {
    const rlimit few{64, 64};
    if (setrlimit(RLIMIT_NOFILE, &few) != 0) return false;
    Pool pool;
    HostBlock block = pool.save(3 * kPart, 1);
    const bool is_saved = holds(block, 1) && segment_bytes() == 0;
    block = nullptr;
    return is_saved && pool->offer(SIZE_MAX, kNode).empty() && pool->free_bytes() == 3 * kPart &&
           holds(pool.save(3 * kPart, 2), 2);
  });
}

}  // namespace
}  // namespace amem
