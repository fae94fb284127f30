// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// What a peer may be doing when it is asked to revoke a rank's memory, and when it gets
// that memory back.
#include <signal.h>

#include <fstream>

#include "tests/process/progress.h"
#include "tests/process/simulated_job.h"

namespace amem {
namespace {

/// Rank 0 pauses and resumes; ranks 1 and 2 are its peers and each other's.
class AskedWhile : public JobTest {
 protected:
  void SetUp() override { AMEM_NEEDS_GPUS(3); }

  std::unique_ptr<jobs::Job> three() {
    auto job = std::make_unique<jobs::Job>(setup_, 3);
    job->use_devices({0, 1, 2});
    job->make("world");
    job->make("pair", {1, 2});
    check_all(*job);
    return job;
  }
  static void check_all(jobs::Job& job) {
    job.all("check world" + counts());
    job.some({1, 2}, "check pair" + counts());
  }
  static void cycle(jobs::RankProcess& rank) {
    rank.ask("pause");
    EXPECT_EQ(totals(rank).resident, 0u);
    rank.ask("resume");
  }
  void use_short_deadline() { setup_.environment["AMEM_TIMEOUT_MS"] = milliseconds(2500); }
};

/// Rank 1 is inside a call that waits for rank 2, not for the one that pauses.
TEST_F(AskedWhile, ItConnectsToAnother) {
  auto job = three();
  job->make("late", {1, 2});
  (*job)[1].order("all_reduce late 2000");
  cycle((*job)[0]);
  (*job)[0].ask("pause");
  (*job)[2].ask("all_reduce late 2000");
  (*job)[1].answer();
  (*job)[0].ask("resume");
  job->some({1, 2}, "check late" + counts());
  check_all(*job);
}

/// The application's mistake: work that waits for the rank that pauses. It is named, and goes on.
TEST_F(AskedWhile, ItConnectsToTheOneThatPauses) {
  use_short_deadline();
  auto job = three();
  job->make("late");
  for (int rank : {1, 2}) (*job)[rank].order("all_reduce late 2000");
  const std::string text = (*job)[0].ask_failing("pause");
  EXPECT_TRUE(has(text, std::to_string((*job)[1].pid())) ||
              has(text, std::to_string((*job)[2].pid())))
      << text;
  EXPECT_EQ((*job)[0].ask("state"), "0");
  (*job)[0].ask("all_reduce late 2000");
  for (int rank : {1, 2}) (*job)[rank].answer();
  cycle((*job)[0]);
  job->all("check late" + counts());
  check_all(*job);
}

/// On a communicator with the one that pauses, and on one without. No capture is invalidated, and
/// what was captured works when all are back.
TEST_F(AskedWhile, ItCaptures) {
  auto job = three();
  for (const char* name : {"pair", "world"}) {
    SCOPED_TRACE(name);
    job->some({1, 2}, std::string("begin_capture ") + name + " 16384");
    cycle((*job)[0]);
    (*job)[0].ask("pause");
    job->some({1, 2}, std::string("end_capture ") + name);
    (*job)[0].ask("resume");
  }
  (*job)[0].ask("capture world 16384");
  job->some({1, 2}, "replay pair");
  job->all("replay world");
  check_all(*job);
  job->all("pause");
  job->all("resume");
  job->some({1, 2}, "replay pair");
  job->all("replay world");
}

/// One after another and at the same time, before the one that pauses is away and after. A stock
/// NCCL ends a communicator when all its members on the host do (proxy.cc, ncclProxyService waits
/// for its peers' connections), so there the one that is away ends it too.
TEST_F(AskedWhile, ItDestroysWhatTheyShare) {
  setup_.environment["AMEM_SIM_DELAY_US"] = "cuMemUnmap=100,cuMemRelease=100";
  auto job = three();
  const int rounds = is_long() ? 40 : 4;
  for (int round = 0; round < rounds; ++round) {
    SCOPED_TRACE(round);
    const std::vector<int> order = round % 2 == 0 ? std::vector<int>{0, 1} : std::vector<int>{1, 0};
    job->make("shared");
    job->all("all_reduce shared 2000");
    for (int rank : order) (*job)[rank].order(rank == 0 ? "pause" : "destroy shared");
    if (real_gpu()) {
      (*job)[0].answer();
      for (int rank : {0, 2}) (*job)[rank].order("destroy shared");
      for (int rank : {0, 1, 2}) (*job)[rank].answer();
      EXPECT_EQ(totals((*job)[0]).resident, 0u);
      (*job)[0].ask("resume");
      check_all(*job);
      continue;
    }
    for (int rank : order) (*job)[rank].answer();
    EXPECT_EQ(totals((*job)[0]).resident, 0u);
    // And when it comes back.
    for (int rank : order) (*job)[rank == 0 ? 0 : 2].order(rank == 0 ? "resume" : "destroy shared");
    for (int rank : order) (*job)[rank == 0 ? 0 : 2].answer();
    (*job)[0].ask("destroy shared");
    check_all(*job);
  }
}

/// Each of its orders at the same time as one of rank 0.
TEST_F(AskedWhile, ItPausesOrResumes) {
  setup_.environment["AMEM_SIM_DELAY_US"] = "cuMemUnmap=50,cuMemMap=50";
  auto job = three();
  const auto together = [&](const char* mine, const char* peers) {
    (*job)[0].order(mine);
    for (int rank : {1, 2}) (*job)[rank].order(peers);
    for (int rank : {1, 2, 0}) (*job)[rank].answer();
  };
  const int rounds = is_long() ? 60 : 3;
  for (int round = 0; round < rounds; ++round) {
    SCOPED_TRACE(round);
    together("pause", "pause");
    together("resume", "resume");
    job->some({1, 2}, "pause");
    together("pause", "resume");
    EXPECT_EQ(totals((*job)[0]).resident, 0u);
    together("resume", "pause");
    job->some({1, 2}, "resume");
    job->all("all_reduce world 2000");
  }
  check_all(*job);
}

/// The state of a process, as proc(5) has it.
char process_state(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(stat, text);
  const size_t name_end = text.rfind(')');
  return name_end == text.npos ? 'Z' : text[name_end + 2];
}

/// Rank 1 stands still, so that it is dead before it has answered. The others are told soon, not at
/// the deadline, and go on without it.
TEST_F(AskedWhile, ItDies) {
  for (const char* order : {"pause", "resume"}) {
    SCOPED_TRACE(order);
    jobs::Job job(setup_, 3);
    job.use_devices({0, 1, 2});
    job.make("world");
    job.make("survivors", {0, 2});
    job.all("check world" + counts());
    job.some({0, 2}, "check survivors" + counts());
    if (order == std::string("resume")) job[0].ask("pause");
    job[1].kill(SIGSTOP);
    wait_for("the peer stands still", [&] { return process_state(job[1].pid()) == 'T'; });
    job[0].order(order);
    job[1].kill(SIGKILL);
    job[0].answer();
    job[0].ask("pause");
    EXPECT_EQ(totals(job[0]).resident, 0u);
    job[0].ask("resume");
    job.some({0, 2}, "check survivors" + counts());
    job.some({0, 2}, "abort world");
  }
}

/// A peer whose device always has work queued.
TEST_F(AskedWhile, ItsDeviceIsNeverIdle) {
  auto job = three();
  (*job)[1].ask("keep_busy");
  for (int i = 0; i < 3; ++i) {
    const long before = std::stol((*job)[1].ask("busy_rounds"));
    cycle((*job)[0]);
    wait_for("the device works", [&] { return std::stol((*job)[1].ask("busy_rounds")) > before; });
  }
  (*job)[1].ask("end_busy");
  check_all(*job);
}

/// A peer whose device waits for somebody else for ever.
TEST_F(AskedWhile, ItsDeviceDoesNotBecomeIdle) {
  setup_.environment["AMEM_TIMEOUT_MS"] = milliseconds(6000);  // waits are logged after 2 s
  auto job = three();
  (*job)[1].ask("enqueue pair 2000");
  const std::string text = (*job)[0].ask_failing("pause");
  EXPECT_TRUE(has(text, std::to_string((*job)[1].pid()))) << text;
  EXPECT_TRUE(has(text, "device")) << text;
  EXPECT_TRUE(has((*job)[1].log(), "still waiting for the device to complete the work"))
      << (*job)[1].log();
  const std::string whom = "busy with work that waits for it: process ";
  EXPECT_TRUE(has((*job)[0].log(), whom + std::to_string((*job)[1].pid()))) << (*job)[0].log();
  EXPECT_EQ((*job)[0].ask("state"), "0");
  (*job)[2].ask("enqueue pair 2000");
  check_all(*job);
  cycle((*job)[0]);
  check_all(*job);
}

}  // namespace
}  // namespace amem
