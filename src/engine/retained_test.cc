// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Contents of which a host copy outlives the resume.
#include <cstdlib>

#include "sim/blake3.h"
#include "tests/support/executor_fixture.h"

namespace amem {
namespace {

constexpr size_t kPage = kSlotBytes;
constexpr size_t kPages = FakeGpus::kBytes / kPage;

/// A GPU that runs amem's kernels. A test can make the one that hashes fail.
class Retained : public ExecutorTest, public testing::WithParamInterface<bool> {
 protected:
  Retained() {
    g_hash_result = driver_result::kSuccess;
    driver_.cuMemSetAccess = [](DeviceAddress, size_t, const Access*, size_t) {
      return driver_result::kSuccess;
    };
    driver_.cuMemHostAlloc = [](void** host, size_t size_bytes, unsigned) {
      *host = g_tables.emplace_back(malloc(size_bytes), &::free).get();
      return driver_result::kSuccess;
    };
    driver_.cuMemFreeHost = [](void*) { return driver_result::kSuccess; };
    driver_.cuMemHostGetDevicePointer_v2 = [](DeviceAddress* address, void* host, unsigned) {
      *address = reinterpret_cast<DeviceAddress>(host);
      return driver_result::kSuccess;
    };
    driver_.cuModuleLoadData = [](DriverModule*, const void*) { return driver_result::kSuccess; };
    driver_.cuModuleGetFunction = [](DriverKernel* kernel, DriverModule, const char* name) {
      *kernel = reinterpret_cast<DriverKernel>(const_cast<char*>(name));
      return driver_result::kSuccess;
    };
    driver_.cuLaunchKernel = run;
  }
  ~Retained() override {
    settle();
    g_tables.clear();
  }

  static DriverResult run(DriverKernel kernel, unsigned blocks, unsigned, unsigned, unsigned,
                          unsigned, unsigned, unsigned, DriverStream, void** parameters, void**) {
    auto* const pages = *static_cast<DeviceAddress**>(parameters[0]);
    if (reinterpret_cast<const char*>(kernel) == std::string_view(kZeroPagesKernel)) {
      const std::vector<unsigned char> zeros(kPage);
      for (unsigned i = 0; i < blocks; ++i)
        if (memcmp(reinterpret_cast<void*>(pages[i]), zeros.data(), kPage) == 0) pages[i] = 0;
      return driver_result::kSuccess;
    }
    auto* const hashes = *static_cast<PageHash**>(parameters[1]);
    for (unsigned i = 0; i < *static_cast<unsigned*>(parameters[2]); ++i)
      hashes[i] = sim::blake3_of(reinterpret_cast<void*>(pages[i]), kPage);
    return g_hash_result;
  }

  /// As add(), of memory that a kernel can access.
  BackingId add_retained(Kind kind = Kind::retain) {
    const BackingId id = add(FakeGpus::kFirstDevice, kind);
    MutexLock lock(registry_.mutex);
    Placement& placement = registry_.find_backing(id)->placements.front();
    placement.access = {{{kLocationDevice, FakeGpus::kFirstDevice}, kAccessReadWrite}};
    placement.accessible = true;
    return id;
  }
  unsigned char* contents(BackingId id) {
    return reinterpret_cast<unsigned char*>(backing(id).placement_for_copies()->address);
  }
  /// A pause and resume, after which the contents are as before it.
  MoveReport cycle(const std::vector<BackingId>& ids) {
    std::vector<std::vector<unsigned char>> before;
    for (const BackingId id : ids)
      before.emplace_back(contents(id), contents(id) + FakeGpus::kBytes);
    report_ = {};
    EXPECT_TRUE(move_out().ok());
    const MoveReport report = report_;
    EXPECT_TRUE(resume().ok());
    settle();
    for (size_t i = 0; i < ids.size(); ++i)
      EXPECT_EQ(memcmp(contents(ids[i]), before[i].data(), FakeGpus::kBytes), 0) << ids[i];
    return report;
  }
  /// The pages that a cycle has copied; the others of this backing are unchanged.
  size_t copied_pages(BackingId id) {
    const MoveReport report = cycle({id});
    EXPECT_EQ(report.unchanged_bytes % kPage, 0u);
    return report.copied_bytes / kPage;
  }

  static inline std::vector<std::unique_ptr<void, void (*)(void*)>> g_tables;
  static inline DriverResult g_hash_result = driver_result::kSuccess;
};

TEST_F(Retained, PagesThatHaveNotChangedAreNotCopied) {
  const BackingId id = add_retained();
  EXPECT_EQ(copied_pages(id), kPages);
  for (int i = 0; i < 2; ++i) {
    const MoveReport report = cycle({id});
    EXPECT_EQ(report.copied_bytes, 0u);
    EXPECT_EQ(report.unchanged_bytes, FakeGpus::kBytes);
  }
  // Each page, one or two at a time, in its first and last byte.
  for (size_t page = 0; page < kPages; ++page) {
    ++contents(id)[page * kPage];
    EXPECT_EQ(copied_pages(id), 1u);
    ++contents(id)[(page + 1) * kPage - 1];
    if (page > 0) ++contents(id)[0];
    EXPECT_EQ(copied_pages(id), page > 0 ? 2u : 1u);
    EXPECT_EQ(copied_pages(id), 0u);
  }
}

TEST_F(Retained, ContentsThatWereThereBeforeLastPauseAreCopied) {
  const BackingId id = add_retained();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(copied_pages(id), i == 0 ? kPages : 1u);
    contents(id)[5] ^= 1;  // there and back
  }
}

TEST_F(Retained, PagesThatBecomeZeroOrWereZeroComeBack) {
  const BackingId id = add_retained();
  memset(contents(id) + 2 * kPage, 0, 2 * kPage);
  EXPECT_EQ(copied_pages(id), 2u);
  memset(contents(id), 0, kPage);
  EXPECT_EQ(copied_pages(id), 1u) << "the copy on the host is not zero";
  EXPECT_EQ(copied_pages(id), 0u);
  contents(id)[3 * kPage] = 1;
  EXPECT_EQ(copied_pages(id), 3u) << "it had no copy: all are copied to other memory";
  EXPECT_EQ(copied_pages(id), 0u);
  contents(id)[0] = 1;
  EXPECT_EQ(copied_pages(id), kPages);
  memset(contents(id), 0, FakeGpus::kBytes);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(copied_pages(id), 0u);
  EXPECT_EQ(pool_.free_bytes(), pool_.capacity_bytes()) << "less than half of the copy is needed";
}

TEST_F(Retained, ZeroContentsHaveNoCopy) {
  const BackingId id = add_retained();
  memset(contents(id), 0, FakeGpus::kBytes);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(copied_pages(id), 0u);
  EXPECT_EQ(pool_.capacity_bytes(), 0u);
  contents(id)[kPage] = 1;
  EXPECT_EQ(copied_pages(id), 1u);
}

TEST_F(Retained, OthersAreCopiedEachTimeAndHaveNoCopyAfterwards) {
  const BackingId retained = add_retained(), kept = add_retained(Kind::keep);
  cycle({retained, kept});
  const MoveReport report = cycle({retained, kept});
  EXPECT_EQ(report.copied_bytes, FakeGpus::kBytes);
  EXPECT_EQ(report.unchanged_bytes, FakeGpus::kBytes);
  EXPECT_EQ(backing(kept).saved, nullptr);
  EXPECT_EQ(pool_.free_bytes(), pool_.capacity_bytes() - FakeGpus::kBytes);
}

TEST_F(Retained, OfTheProcessCompareAllKindsUntilItEnds) {
  executor_.retain_backups(true);
  const BackingId kept = add_retained(Kind::keep);
  EXPECT_EQ(copied_pages(kept), kPages);
  EXPECT_EQ(copied_pages(kept), 0u);
  executor_.retain_backups(false);
  EXPECT_EQ(copied_pages(kept), kPages);
  EXPECT_EQ(backing(kept).saved, nullptr);
}

TEST_F(Retained, WithoutHashesAllIsCopied) {
  const BackingId id = add_retained();
  cycle({id});
  g_hash_result = driver_result::kUnknown;
  EXPECT_EQ(copied_pages(id), kPages);
  g_hash_result = driver_result::kSuccess;
  EXPECT_EQ(copied_pages(id), kPages) << "the hash of the last copy is not known";
  EXPECT_EQ(copied_pages(id), 0u);
}

// A kernel would end the context of memory that it cannot access.
TEST_F(Retained, MemoryThatNoKernelCanAccessIsCopied) {
  const BackingId id = add_retained();
  cycle({id});
  const auto grant = [&](bool access) {
    MutexLock lock(registry_.mutex);
    registry_.find_backing(id)->placements.front().accessible = access;
  };
  grant(false);
  EXPECT_EQ(copied_pages(id), kPages);
  grant(true);
  EXPECT_EQ(copied_pages(id), kPages);
  EXPECT_EQ(copied_pages(id), 0u);
}

// --- Pauses that fail

// Of what was released before the error, and is back, the copy is good.
TEST_F(Retained, CopyThatFailsLeavesNoHash) {
  const std::vector<BackingId> all{add_retained(), add_retained(), add_retained()};
  cycle(all);
  for (const size_t failing : {1, 3}) {
    for (const BackingId id : all) ++contents(id)[kPage];
    const std::vector<unsigned char> before(contents(3), contents(3) + FakeGpus::kBytes);
    {
      MutexLock lock(gpus_.mutex);
      gpus_.failing_copy = gpus_.copies + failing;
    }
    EXPECT_FALSE(move_out().ok());
    settle();
    EXPECT_EQ(backing(3).saved, nullptr);
    EXPECT_EQ(backing(3).saved_hashes, nullptr);
    EXPECT_TRUE(resume().ok());
    EXPECT_EQ(memcmp(contents(3), before.data(), before.size()), 0);

    EXPECT_EQ(cycle(all).copied_bytes, FakeGpus::kBytes * (failing == 1 ? 3 : 2));
    EXPECT_EQ(cycle(all).copied_bytes, 0u);
  }
}

TEST_F(Retained, ResumeThatFailsKeepsTheCopy) {
  const BackingId id = add_retained();
  cycle({id});
  ASSERT_TRUE(move_out().ok());
  {
    MutexLock lock(gpus_.mutex);
    gpus_.room = 0;
  }
  ASSERT_FALSE(resume().ok());
  {
    MutexLock lock(gpus_.mutex);
    gpus_.room = 100;
  }
  ASSERT_TRUE(resume().ok());
  EXPECT_TRUE(is_intact(id));
  EXPECT_EQ(copied_pages(id), 0u);
}

// --- Host memory

TEST_F(Retained, CopiesAreMadeAgainAfterTheyAreForgotten) {
  const BackingId id = add_retained();
  cycle({id});
  EXPECT_TRUE(executor_.forget_retained({}));
  EXPECT_FALSE(executor_.forget_retained({}));
  EXPECT_EQ(pool_.free_bytes(), pool_.capacity_bytes());
  EXPECT_EQ(copied_pages(id), kPages);

  ASSERT_TRUE(move_out().ok());
  EXPECT_FALSE(executor_.forget_retained({})) << "the memory is released";
  EXPECT_FALSE(executor_.forget_retained(begun()));
  ASSERT_TRUE(resume().ok());
  EXPECT_TRUE(is_intact(id));
}

TEST_F(Retained, RoomForTheNextPauseIsThere) {
  const BackingId id = add_retained();
  cycle({id});
  const size_t capacity = pool_.capacity_bytes();
  ASSERT_TRUE(executor_.make_room(plan_pause(registry_, {""}), patience()).ok());
  EXPECT_EQ(pool_.capacity_bytes(), capacity);
  EXPECT_NE(backing(id).saved, nullptr);
  EXPECT_EQ(copied_pages(id), 0u);
}

// The pool has room for the contents of one and a half.
TEST_F(Retained, CopiesGiveWayToAPauseThatLacksHostMemory) {
  const BackingId id = add_retained();
  ASSERT_TRUE(move_out(limited_).ok());
  ASSERT_TRUE(limited_
                  .move_in(
                      begun(), no_wait, [] {}, patience(), &report_)
                  .ok());
  ASSERT_NE(backing(id).saved, nullptr);

  Plan other;
  other.own = {add(FakeGpus::kFirstDevice)};
  ASSERT_TRUE(limited_.make_room(other, patience()).ok());
  EXPECT_EQ(backing(id).saved, nullptr);
  ASSERT_TRUE(limited_.move_out(other, patience(), &report_).ok());
  ASSERT_TRUE(limited_
                  .move_in(
                      other, no_wait, [] {}, patience(), &report_)
                  .ok());
  EXPECT_TRUE(is_intact(other.own.front()));
}

TEST_F(Retained, CopiesOfThePlanGiveWayLast) {
  const BackingId id = add_retained(), other = add_retained();
  memset(contents(other), 0, FakeGpus::kBytes);
  ASSERT_TRUE(move_out(limited_).ok());
  ASSERT_TRUE(limited_
                  .move_in(
                      begun(), no_wait, [] {}, patience(), &report_)
                  .ok());
  memset(contents(other), 1, kPage);
  ASSERT_TRUE(limited_.make_room(plan_pause(registry_, {""}), patience()).ok());
  EXPECT_NE(backing(id).saved, nullptr) << "there is room for what is new";

  memset(contents(other), 1, FakeGpus::kBytes);
  report_ = {};
  EXPECT_EQ(move_out(limited_).error().kind, ErrorKind::os);
  EXPECT_EQ(backing(id).saved, nullptr);
  EXPECT_TRUE(is_intact(id));
}

}  // namespace
}  // namespace amem
