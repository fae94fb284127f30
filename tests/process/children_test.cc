// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Children of a rank, with exec and without: they neither pause nor keep what their parent gives
// up, and their end is their own.
#include <fstream>
#include <set>
#include <sstream>

#include "tests/process/progress.h"
#include "tests/process/shared_region.h"
#include "tests/process/simulated_job.h"

namespace amem {
namespace {

class Children : public JobTest {
 protected:
  void SetUp() override { AMEM_NEEDS_GPUS(2); }

  /// What the descriptors of a process lead to.
  static std::vector<std::string> open_files(const std::string& pid) {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/" + pid + "/fd")) {
      std::error_code closed_since;
      const auto file = std::filesystem::read_symlink(entry.path(), closed_since);
      if (!closed_since) files.push_back(file.string());
    }
    return files;
  }
  /// Nothing of amem and minccl, nor of the simulated GPUs. The first three and what this test's
  /// own parent has left open are not ours; a stock NCCL and driver are not ours to judge.
  void expect_nothing_inherited(const std::string& pid) const {
    if (real_gpu()) return;
    for (const std::string& file : open_files(pid)) {
      EXPECT_FALSE(has(file, "socket:") || has(file, "anon_inode:") || has(file, gpus_.string()) ||
                   (has(file, "memfd:") && !has(file, "rank log")))
          << file;
    }
  }
  /// Returns when the process runs a program that was started under this name: vfork(2) returns
  /// then, those of ThreadSanitizer and of qemu-user at once.
  static void wait_for_program(const std::string& pid, const std::string& name) {
    wait_for(pid + " runs " + name, [&] {
      std::ifstream line("/proc/" + pid + "/cmdline");
      for (std::string word; std::getline(line, word, '\0');)
        if (word == name) return true;
      return false;
    });
  }
  /// The sockets of amem's peers: their numbers as /proc/net/unix has them.
  static std::set<std::string> peer_sockets() {
    std::set<std::string> files;
    std::ifstream table("/proc/net/unix");
    for (std::string line; std::getline(table, line);) {
      std::istringstream words(line);
      std::string number, name;
      for (int i = 0; i < 7; ++i) words >> number;
      if (words >> name && has(name, "amem-")) files.insert("socket:[" + number + "]");
    }
    return files;
  }
  static size_t peer_sockets_of(const std::string& pid) {
    const std::set<std::string> sockets = peer_sockets();
    size_t count = 0;
    for (const std::string& file : open_files(pid)) count += sockets.count(file);
    return count;
  }
  static void expect_cycle_works(jobs::Job& job) {
    job.all("pause");
    for (int rank : {0, 1}) EXPECT_EQ(totals(job[rank]).resident, 0u);
    job.all("resume");
    job.all("check world" + counts());
  }
};

TEST_F(Children, WithAnotherProgramInheritNothing) {
  auto job = pair();
  for (const char* state : {"active", "paused"}) {
    if (state == std::string("paused")) job->all("pause");
    const std::string child = (*job)[0].ask("exec_child");
    expect_nothing_inherited(child);
    if (state == std::string("active")) {
      const size_t used_before = used_bytes((*job)[0]);
      const size_t driver_bytes = totals((*job)[0]).driver_bytes;
      (*job)[0].ask("pause");
      expect_freed(used_before, used_bytes((*job)[0]), driver_bytes);
      (*job)[0].ask("resume");
    } else {
      job->all("resume");
    }
    job->all("check world" + counts());
    EXPECT_EQ((*job)[0].ask("end_child"), "0");
  }
  expect_cycle_works(*job);
}

/// The child's own calls of amem are in its exit status: 0 when all say that it can only forward.
/// Of those that share the address space of the rank until they run the other program: this is not
/// the end of the rank, whose peers wait for it as before.
class ChildrenOfOneAddressSpace : public Children,
                                  public testing::WithParamInterface<const char*> {};

TEST_P(ChildrenOfOneAddressSpace, WithAnotherProgramAreNotTheRank) {
  auto job = pair();
  const std::string child = (*job)[1].ask(GetParam());
  wait_for_program(child, "cat");
  expect_nothing_inherited(child);

  (*job)[0].ask("pause");
  const Totals importer = totals((*job)[1]);
  EXPECT_GT(importer.imports, 0u);
  EXPECT_EQ(importer.mapped, 0u) << "it was asked";
  (*job)[0].ask("resume");
  expect_cycle_works(*job);
  EXPECT_EQ((*job)[1].ask("end_child"), "0");
  expect_cycle_works(*job);
}

INSTANTIATE_TEST_SUITE_P(By, ChildrenOfOneAddressSpace,
                         testing::Values("exec_child", "spawn_child", "vfork_child"),
                         [](const auto& order) { return std::string(order.param); });

/// Three ranks, of which the last one runs another program, and a communicator of the others.
class RankWithAnotherProgram : public Children {
 protected:
  void SetUp() override { AMEM_NEEDS_GPUS(3); }
  static constexpr int kGone = 2;
  static inline const std::vector<int> kOthers = {0, 1};

  static void make_world(jobs::Job& job) {
    job.use_devices(first_devices(3));
    job.make("world");
    job.all("check world" + counts());
    job.make("others", kOthers);
    job.some(kOthers, "check others" + counts());
  }
  /// Returns when the program runs.
  static void run(jobs::Job& job, const char* program, const std::string& order) {
    job[kGone].order(order);
    wait_for_program(std::to_string(job[kGone].pid()), program);
  }
  /// Without the rank that is gone, and without a wait for it.
  void expect_others_work(jobs::Job& job) const {
    const auto began = std::chrono::steady_clock::now();
    for (int cycle = 0; cycle < 2; ++cycle) {
      job.some(kOthers, "pause");
      for (int rank : kOthers) EXPECT_EQ(totals(job[rank]).resident, 0u);
      job.some(kOthers, "resume");
      job.some(kOthers, "check others" + counts());
    }
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - began;
    EXPECT_LT(took.count(), std::stol(setup_.environment.at("AMEM_TIMEOUT_MS")));
  }
};

TEST_F(RankWithAnotherProgram, IsNotWaitedFor) {
  jobs::Job job(setup_, 3);
  make_world(job);

  run(job, "cat", "exec");

  expect_others_work(job);
}

TEST_F(RankWithAnotherProgram, IsNotWaitedForAfterAPause) {
  jobs::Job job(setup_, 3);
  make_world(job);
  job.some(kOthers, "pause");

  run(job, "cat", "exec");

  job.some(kOthers, "resume");
  for (int rank : kOthers) {
    const std::string text = job[rank].ask_failing("all_reduce world 2000");
    EXPECT_TRUE(has(text, std::to_string(job[kGone].pid()))) << text;
  }
  job.some(kOthers, "abort world");
  expect_others_work(job);
}

// A trainer that restarts itself.
TEST_F(RankWithAnotherProgram, ThatIsARankAgainJoinsTheOthers) {
  jobs::Job job(setup_, 3);
  make_world(job);

  run(job, "rank_again", "exec_rank");
  job[kGone].ask("device " + std::to_string(kGone));
  job.some(kOthers, "abort world");
  expect_others_work(job);
  job.make("again");
  job.all("check again" + counts());

  for (int cycle = 0; cycle < 2; ++cycle) {
    job.all("pause");
    for (int rank = 0; rank < job.size(); ++rank) EXPECT_EQ(totals(job[rank]).resident, 0u);
    job.all("resume");
    job.all("check again" + counts());
  }
}

TEST_F(Children, WithoutAnotherProgramOnlyForward) {
  auto job = pair();
  const std::string child = (*job)[0].ask("fork_child");
  EXPECT_GT(peer_sockets_of(std::to_string((*job)[0].pid())), 0u);
  EXPECT_EQ(peer_sockets_of(child), 0u) << "it would outlive its parent for the parent's peers";
  expect_cycle_works(*job);
  EXPECT_EQ((*job)[0].ask("end_child"), "0");
  expect_cycle_works(*job);
}

TEST_F(Children, OfAPausedProcess) {
  auto job = pair();
  job->all("pause");
  (*job)[0].ask("fork_child");
  job->all("resume");
  job->all("check world" + counts());
  EXPECT_EQ((*job)[0].ask("end_child"), "0");
  expect_cycle_works(*job);
}

/// Of a process whose memory another one has opened, forked while it is held and while it is
/// paused.
TEST_F(Children, OfAProcessWithTags) {
  jobs::Job job(setup_, 2);
  job.use_devices(first_devices(2));
  SharedRegion region(job, 0, {1});
  const size_t used = used_bytes(job[0]);
  const size_t held = totals(job[0]).resident;
  ASSERT_GT(held, 0u);
  const auto pause = [&] {
    job[0].ask("tag_pause");
    EXPECT_EQ(totals(job[0]).resident, 0u);
    // A child of a simulated process holds its memory (sim/machine.cc).
    if (real_gpu()) expect_freed(used, used_bytes(job[0]), held);
  };
  const auto resume = [&] {
    job[0].ask("tag_resume");
    if (real_gpu()) expect_as_before(used, used_bytes(job[0]));
    region.check();
  };
  job.all("fork_child");
  pause();
  resume();
  for (const int rank : {0, 1}) EXPECT_EQ(job[rank].ask("end_child"), "0");
  region.check();

  pause();
  job.all("fork_child");
  resume();
  for (const int rank : {0, 1}) EXPECT_EQ(job[rank].ask("end_child"), "0");
  region.check();
  region.free();
  EXPECT_EQ(totals(job[1]).imports, 0u);
}

}  // namespace
}  // namespace amem
