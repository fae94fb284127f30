// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Memory by tag: each tag is paused and resumed without the others, in every order, beside NCCL's.
#include <filesystem>
#include <sstream>

#include "tests/process/shared_region.h"
#include "tests/process/simulated_job.h"

namespace amem {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

struct TagTotals {
  int state = -1;
  size_t allocated = 0, resident = 0, released = 0, saved = 0, on_disk = 0;
};

class TagsTest : public JobTest {
 protected:
  static TagTotals of(jobs::RankProcess& rank, const std::string& tag) {
    TagTotals totals;
    std::istringstream(rank.ask("tag_totals " + tag)) >> totals.state >> totals.allocated >>
        totals.resident >> totals.released >> totals.saved >> totals.on_disk;
    return totals;
  }
  static bool is_paused(jobs::RankProcess& rank, const std::string& tag) {
    const TagTotals totals = of(rank, tag);
    return totals.state == 2 && totals.resident == 0 && totals.allocated == totals.released;
  }
  /// Weights that are kept and a KV cache that is not, both written.
  static void allocate(jobs::RankProcess& rank) {
    rank.ask("tag_malloc weights keep " + std::to_string(3 * kMiB));
    rank.ask("tag_malloc weights keep " + std::to_string(5 * kMiB));
    rank.ask("tag_malloc kv_cache discard " + std::to_string(8 * kMiB));
    rank.ask("tag_write weights");
    rank.ask("tag_write kv_cache");
  }
};

TEST_F(TagsTest, OneIsPausedWithoutTheOthers) {
  AMEM_NEEDS_GPUS(1);
  jobs::Job job(setup_, 1);
  job.use_devices({0});
  allocate(job[0]);
  const std::string free_before = job[0].ask("memory");

  job[0].ask("tag_pause kv_cache");
  EXPECT_TRUE(is_paused(job[0], "kv_cache"));
  EXPECT_EQ(of(job[0], "kv_cache").saved, 0u) << "it is discarded";
  EXPECT_EQ(of(job[0], "weights").state, 0);
  EXPECT_EQ(job[0].ask("tag_check weights"), std::to_string(8 * kMiB));
  EXPECT_EQ(of(job[0], "weights").allocated, 10 * kMiB) << "whole pages of 2 MiB";

  job[0].ask("tag_pause weights");
  EXPECT_TRUE(is_paused(job[0], "weights"));
  // A part is zero, and is not kept.
  EXPECT_LT(of(job[0], "weights").saved, 8 * kMiB);
  EXPECT_GT(of(job[0], "weights").saved, 6 * kMiB);
  EXPECT_NE(job[0].ask("memory"), free_before) << "the GPU has more room";

  job[0].ask("tag_resume weights");
  EXPECT_TRUE(is_paused(job[0], "kv_cache"));
  job[0].ask("tag_check weights");
  job[0].ask("tag_resume");
  EXPECT_EQ(of(job[0], "kv_cache").resident, 8 * kMiB);
  job[0].ask("tag_write kv_cache");
  job[0].ask("tag_check kv_cache");
  job[0].ask("tag_check weights");
}

struct PauseBytes {
  size_t copied = 0, unchanged = 0;
  bool operator==(const PauseBytes&) const = default;
};

/// A pause and resume of memory with the tag, after which it is as before.
PauseBytes cycle(jobs::RankProcess& rank, const std::string& tag) {
  rank.ask("tag_pause " + tag);
  PauseBytes bytes;
  std::istringstream(rank.ask("tag_copied")) >> bytes.copied >> bytes.unchanged;
  rank.ask("tag_resume " + tag);
  rank.ask("tag_check " + tag);
  return bytes;
}

// Two pieces of 3 and 5 MiB, of which 512 KiB and 1 MiB are zero.
TEST_F(TagsTest, RetainedContentsAreCopiedWhereTheyHaveChanged) {
  AMEM_NEEDS_GPUS(1);
  constexpr size_t kPage = 64 << 10, kWords = kPage / sizeof(unsigned), kSaved = 13 * kMiB / 2;
  jobs::Job job(setup_, 1);
  job.use_devices({0});
  job[0].ask("tag_malloc weights retain " + std::to_string(3 * kMiB));
  job[0].ask("tag_malloc weights retain " + std::to_string(5 * kMiB));
  job[0].ask("tag_malloc cache keep " + std::to_string(kMiB));
  for (const char* tag : {"weights", "cache"}) job[0].ask(std::string("tag_write ") + tag);

  EXPECT_EQ(cycle(job[0], "weights"), (PauseBytes{kSaved, 0}));
  EXPECT_EQ(of(job[0], "weights").saved, 0u) << "it is of released memory";
  for (int i = 0; i < 3; ++i) EXPECT_EQ(cycle(job[0], "weights"), (PauseBytes{0, kSaved}));
  EXPECT_EQ(cycle(job[0], "cache"), (PauseBytes{kMiB / 2, 0}));
  EXPECT_EQ(cycle(job[0], "cache"), (PauseBytes{kMiB / 2, 0}));

  // Of each piece two pages. Then a page of 8 that were zero, of which less than 8 are copied too:
  // all pages, to other memory.
  job[0].ask("tag_change weights 7 " + std::to_string(3 * kWords - 1));
  EXPECT_EQ(cycle(job[0], "weights"), (PauseBytes{4 * kPage, kSaved - 4 * kPage}));
  job[0].ask("tag_change weights " + std::to_string(9 * kWords));
  EXPECT_EQ(cycle(job[0], "weights"), (PauseBytes{kSaved + 16 * kPage, 0}));
  EXPECT_EQ(cycle(job[0], "weights"), (PauseBytes{0, kSaved + 16 * kPage}));
  job[0].ask("tag_write weights");
  EXPECT_EQ(cycle(job[0], "weights"), (PauseBytes{0, kSaved + 16 * kPage}));

  // The pool's host memory without contents, then also the copies.
  job[0].ask("trim");
  EXPECT_EQ(cycle(job[0], "weights"), (PauseBytes{kSaved + 16 * kPage, 0}));
  job[0].ask("tag_free weights");
  job[0].ask("trim");
}

TEST_F(TagsTest, PauseThatFailsKeepsRetainedContentsRight) {
  if (real_gpu()) GTEST_SKIP() << "a real driver does not fail on request";
  jobs::Job job(setup_, 1);
  job.use_devices({0});
  for (int i = 0; i < 3; ++i) job[0].ask("tag_malloc weights retain " + std::to_string(4 * kMiB));
  job[0].ask("tag_write weights");
  cycle(job[0], "weights");
  for (int n = 1; n <= 3; ++n) {
    job[0].ask("tag_change weights " + std::to_string(n));
    job[0].ask("driver_fault cuMemcpyDtoHAsync:" + std::to_string(n) + "=999");
    job[0].ask_failing("tag_pause weights");
    job[0].ask("driver_fault");
    job[0].ask("tag_check weights");
    job[0].ask("tag_change weights " + std::to_string(100 + n));
    cycle(job[0], "weights");
    EXPECT_EQ(cycle(job[0], "weights").copied, 0u);
  }
}

/// The parameter is the tag that is paused first.
class EveryOrderOfTags : public TagsTest, public testing::WithParamInterface<int> {};

TEST_P(EveryOrderOfTags, IsLeftAndReturnedIn) {
  AMEM_NEEDS_GPUS(2);
  setup_.environment["AMEM_TRIM_CONTEXT"] = "1";
  jobs::Job job(setup_, 2);
  job.use_devices(first_devices(2));
  job.make("world");
  for (int rank : {0, 1}) allocate(job[rank]);
  job.all("all_reduce world 2000");
  const std::vector<std::string> names{"nccl", "weights", "kv_cache"};
  std::vector<std::array<int, 3>> orders;
  std::array<int, 3> order{0, 1, 2};
  do orders.push_back(order);
  while (std::next_permutation(order.begin(), order.end()));

  const auto are_intact = [&](int rank) {
    if (of(job[rank], "weights").state == 0) job[rank].ask("tag_check weights");
  };
  for (const auto& leaving : orders) {
    if (leaving[0] != GetParam()) continue;
    for (const auto& returning : orders) {
      SCOPED_TRACE(testing::PrintToString(leaving) + " left, " + testing::PrintToString(returning) +
                   " returned");
      for (int tag : leaving)
        for (int rank : {0, 1}) {
          job[rank].ask("tag_pause " + names[static_cast<size_t>(tag)]);
          ASSERT_TRUE(is_paused(job[rank], names[static_cast<size_t>(tag)]));
          are_intact(rank);
        }
      for (int tag : returning)
        for (int rank : {1, 0}) {
          job[rank].ask("tag_resume " + names[static_cast<size_t>(tag)]);
          are_intact(rank);
        }
      job.all("all_reduce world 2000");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(FirstIs, EveryOrderOfTags, testing::Range(0, 3),
                         testing::PrintToStringParamName());

TEST_F(TagsTest, ContentsOnDiskComeBack) {
  AMEM_NEEDS_GPUS(1);
  const std::string directory = testing::TempDir() + "amem_tags_test";
  std::filesystem::create_directory(directory);
  setup_.environment["AMEM_BACKUP_DIR"] = directory;
  jobs::Job job(setup_, 1);
  job.use_devices({0});
  allocate(job[0]);
  job[0].ask("tag_malloc optimizer disk " + std::to_string(80 * kMiB));
  job[0].ask("tag_write optimizer");
  for (int cycle = 0; cycle < 2; ++cycle) {
    job[0].ask("tag_pause");
    EXPECT_TRUE(is_paused(job[0], "optimizer"));
    EXPECT_EQ(of(job[0], "optimizer").saved, 0u);
    EXPECT_GT(of(job[0], "optimizer").on_disk, 60 * kMiB);
    EXPECT_EQ(of(job[0], "weights").on_disk, 0u);
    EXPECT_TRUE(std::filesystem::is_empty(directory)) << "the file has no name";
    job[0].ask("tag_resume optimizer");
    EXPECT_EQ(job[0].ask("tag_check optimizer"), std::to_string(80 * kMiB));
    job[0].ask("tag_resume");
    job[0].ask("tag_check weights");
  }
  EXPECT_EQ(of(job[0], "optimizer").on_disk, 0u);
  std::filesystem::remove_all(directory);
}

TEST_F(TagsTest, ContentsOnDiskNeedADirectory) {
  AMEM_NEEDS_GPUS(1);
  setup_.environment["AMEM_BACKUP_DIR"] = "/proc/none";
  jobs::Job job(setup_, 1);
  job.use_devices({0});
  job[0].order("tag_malloc optimizer disk 1000");
  const jobs::RankProcess::Outcome outcome = job[0].outcome();
  EXPECT_FALSE(outcome.ok);
  EXPECT_NE(outcome.text.find("set AMEM_BACKUP_DIR"), std::string::npos) << outcome.text;
}

TEST_F(TagsTest, NcclAloneLeavesOtherTagsWhereTheyAre) {
  AMEM_NEEDS_GPUS(2);
  jobs::Job job(setup_, 2);
  job.use_devices(first_devices(2));
  job.make("world");
  allocate(job[0]);
  job.all("all_reduce world 2000");

  job.all("pause");
  EXPECT_TRUE(is_paused(job[0], "nccl"));
  job[0].ask("tag_check weights");
  for (int rank : {0, 1}) {
    job[rank].order("all_reduce world 2000");
    EXPECT_FALSE(job[rank].outcome().ok) << "its gate is closed";
  }
  job.all("resume");

  job[0].ask("tag_pause weights");
  job.all("all_reduce world 2000");
  job[0].ask("tag_resume weights");
  job[0].ask("tag_check weights");
}

TEST_F(TagsTest, AllAtOnceAndAgainIsNothing) {
  AMEM_NEEDS_GPUS(2);
  jobs::Job job(setup_, 2);
  job.use_devices(first_devices(2));
  job.make("world");
  allocate(job[0]);
  job.all("all_reduce world 2000");

  for (int cycle = 0; cycle < 3; ++cycle) {
    job.all("tag_pause");
    job.all("tag_pause");
    for (const char* tag : {"nccl", "weights", "kv_cache"})
      EXPECT_TRUE(is_paused(job[0], tag)) << tag;
    job.all("tag_resume");
    job.all("tag_resume");
    job[0].ask("tag_check weights");
    job.all("all_reduce world 2000");
  }
}

TEST_F(TagsTest, MemoryIsFreedAndMadeWhilePaused) {
  AMEM_NEEDS_GPUS(1);
  jobs::Job job(setup_, 1);
  job.use_devices({0});
  allocate(job[0]);
  const std::string before = job[0].ask("tag_totals weights");
  job[0].ask("tag_pause");

  job[0].ask("tag_free weights");
  EXPECT_EQ(of(job[0], "weights").allocated, 0u);
  job[0].ask("tag_malloc kv_cache discard " + std::to_string(2 * kMiB));
  EXPECT_EQ(of(job[0], "kv_cache").resident, 2 * kMiB) << "new memory is here";
  job[0].ask("tag_pause kv_cache");
  EXPECT_TRUE(is_paused(job[0], "kv_cache"));

  job[0].ask("tag_resume");
  EXPECT_EQ(of(job[0], "kv_cache").resident, 10 * kMiB);
  job[0].ask("tag_write kv_cache");
  job[0].ask("tag_check kv_cache");
}

TEST_F(TagsTest, GrowsAfterAResumeAndWhilePaused) {
  AMEM_NEEDS_GPUS(1);
  jobs::Job job(setup_, 1);
  job.use_devices({0});
  size_t wanted = 0;
  // New memory is resident: what was paused before stays away.
  const auto grow = [&](size_t size_bytes, size_t resident) {
    job[0].ask("tag_malloc weights keep " + std::to_string(size_bytes));
    job[0].ask("tag_write_last weights");
    wanted += size_bytes;
    EXPECT_EQ(of(job[0], "weights").allocated, wanted);
    EXPECT_EQ(of(job[0], "weights").resident, resident);
  };
  const auto resume = [&] {
    job[0].ask("tag_resume weights");
    EXPECT_EQ(of(job[0], "weights").resident, wanted);
    EXPECT_EQ(job[0].ask("tag_check weights"), std::to_string(wanted));
  };
  const auto pause = [&] {
    job[0].ask("tag_pause weights");
    EXPECT_TRUE(is_paused(job[0], "weights"));
    EXPECT_EQ(of(job[0], "weights").released, wanted);
  };
  grow(4 * kMiB, 4 * kMiB);
  pause();
  resume();
  grow(6 * kMiB, 10 * kMiB);
  pause();
  resume();
  pause();
  grow(2 * kMiB, 2 * kMiB);
  resume();
  pause();
  grow(8 * kMiB, 8 * kMiB);
  pause();
  resume();
}

// An importer is asked about one of them, or about all.
TEST_F(TagsTest, MoreThanAMessageNamesArePausedWithAnImporter) {
  AMEM_NEEDS_GPUS(2);
  constexpr int kTags = 260;
  setup_.environment["AMEM_SIM_MEMORY_MB"] = "2048";
  jobs::Job job(setup_, 2);
  job.use_devices(first_devices(2));
  SharedRegion region(job, 0, {1});
  std::vector<std::string> opened;
  for (int tag = 0; tag < kTags; ++tag) {
    const std::string name = "t" + std::to_string(tag);
    const std::string address = job[0].ask("tag_malloc " + name + " discard 1");
    if (tag % 2 == 0) continue;
    opened.push_back(job[1].ask("ipc_open " + job[0].ask("ipc_export " + address)));
  }
  for (int cycle = 0; cycle < 2; ++cycle) {
    job[0].ask("tag_pause");
    EXPECT_EQ(totals(job[0]).resident, 0u);
    EXPECT_EQ(totals(job[1]).mapped, 0u);
    region.expect_revoked();
    job[0].ask("tag_resume");
    region.check();
  }
  for (const std::string& address : opened) job[1].ask("ipc_close " + address);
  region.free();
}

TEST_F(TagsTest, NobodyUsesAnUnknownTag) {
  AMEM_NEEDS_GPUS(1);
  jobs::Job job(setup_, 1);
  job.use_devices({0});
  for (int i = 0; i < 2; ++i) {
    job[0].ask("tag_pause nobody");
    job[0].ask("tag_resume nobody");
  }
  EXPECT_EQ(of(job[0], "nobody").state, 0);
  const std::string log = job[0].log(), line = "no memory has the tag nobody";
  EXPECT_NE(log.find(line), std::string::npos) << log;
  EXPECT_EQ(log.find(line), log.rfind(line)) << log;
}

/// What is left when a resume finds no room is on the host, and comes back later.
TEST_F(TagsTest, ResumeWithoutRoomLeavesTheTagPaused) {
  AMEM_NEEDS_GPUS(1);
  jobs::Job job(setup_, 2);
  job.use_devices({0, 0});
  allocate(job[0]);
  job[0].ask("tag_pause");
  job[1].ask("occupy 0 77");

  job[0].order("tag_resume weights");
  const jobs::RankProcess::Outcome refused = job[0].outcome();
  EXPECT_FALSE(refused.ok);
  EXPECT_NE(refused.text.find("MiB are needed"), std::string::npos) << refused.text;
  EXPECT_TRUE(is_paused(job[0], "weights"));

  job[1].ask("drain");
  job[0].ask("tag_resume");
  job[0].ask("tag_check weights");
}

}  // namespace
}  // namespace amem
