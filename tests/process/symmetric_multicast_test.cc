// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Symmetric memory of amem with multicast, on the simulated GPU.
#include "tests/process/meeting.h"
#include "tests/process/progress.h"
#include "tests/process/simulated_job.h"

namespace amem {
namespace {

constexpr size_t kBufferBytes = size_t{4} << 20;
constexpr const char* kMulticastCalls =
    "calls_of cuMulticastCreate cuMulticastAddDevice cuMulticastBindMem cuMulticastBindAddr "
    "cuMulticastUnbind cuMulticastGetGranularity";

class MulticastTest : public JobTest {
 protected:
  void SetUp() override {
    if (real_gpu()) GTEST_SKIP() << "needs 2 GPUs, simulated ones, for multicast";
    setup_.environment["AMEM_MULTICAST"] = "1";
    setup_.environment["AMEM_SIM_MULTICAST"] = "1";
    setup_.environment["GMM_LOG"] = "3";
  }

  std::unique_ptr<jobs::Job> met(int count, const std::vector<int>& devices = {}) {
    auto job = std::make_unique<jobs::Job>(setup_, count);
    job->use_devices(devices.empty() ? first_devices(count) : devices);
    job->all("sym_malloc b " + std::to_string(kBufferBytes));
    meeting_.meet(*job, "h", first_devices(count));
    return job;
  }
  static void expect_multicast(jobs::Job& job, const std::string& has_it) {
    for (const std::string& found : job.all("sym_multicast h")) EXPECT_EQ(found, has_it);
  }
  /// Collectives work, and those with multicast are refused.
  static void expect_works_without(jobs::Job& job) {
    expect_multicast(job, "0");
    job.all("sym_collectives h 16 200016");
    for (const char* kind : {"multimem", "multimem_gather"}) {
      const std::string refused = job[0].ask_failing("sym_misuse " + std::string(kind) + " h b");
      EXPECT_TRUE(has(refused, "the handle has no multicast")) << refused;
    }
  }

  const Meeting meeting_;
};

/// The parameter is the number of ranks.
class MulticastCollectives : public MulticastTest, public testing::WithParamInterface<int> {};

TEST_P(MulticastCollectives, HaveTheSumsAndBytesOfAllRanks) {
  const auto job = met(GetParam());
  expect_multicast(*job, "1");
  const size_t used = used_bytes((*job)[0]);
  for (const std::string& compared : job->all("sym_collectives h 16 48 131072 131088 200016"))
    EXPECT_GE(atoi(compared.c_str()), 5 * 33);
  job->all("sym_destroy h");
  job->all("sym_free b");
  for (int rank = 0; rank < GetParam(); ++rank) EXPECT_EQ(totals((*job)[rank]).objects, 0u);
  EXPECT_LE(used_bytes((*job)[0]) + kBufferBytes, used) << "the object has released the buffer";
}

INSTANTIATE_TEST_SUITE_P(OfRanks, MulticastCollectives, testing::Values(2, 3, 4),
                         testing::PrintToStringParamName());

TEST_F(MulticastTest, BufferStaysAtAPauseAndTheRestIsReleased) {
  const auto job = met(2);
  job->all("sym_collectives h 4096 300000");
  job->all("sym_capture large h 2000000");
  for (int cycle = 0; cycle < 2; ++cycle) {
    (*job)[cycle].ask("tag_pause symmetric");
    const Totals paused = totals((*job)[cycle]);
    EXPECT_EQ(paused.resident, kBufferBytes);
    EXPECT_EQ(paused.fixed, kBufferBytes);
    EXPECT_GT(paused.released, 0u) << "the workspace";
    EXPECT_EQ(totals((*job)[1 - cycle]).mapped, kBufferBytes) << "the peer keeps what stays";
    const std::string log = (*job)[cycle].log();
    EXPECT_TRUE(has(log, "4 MiB stay on the GPU (bound to multicast (NVLS))")) << log;
    (*job)[cycle].ask("tag_resume symmetric");
    job->all("sym_replay large h 2");
    job->all("sym_collectives h 4096 300000");
  }
  (*job)[0].ask("tag_pause symmetric");
  (*job)[1].ask("tag_pause symmetric");
  job->all("tag_resume symmetric");
  job->all("sym_collectives h 4096 300000");
}

TEST_F(MulticastTest, HandlesOfSeveralGroupsShareABuffer) {
  const auto job = met(3);
  meeting_.meet(*job, "pair", {2, 0});
  job->all("sym_collectives h 1024 100000");
  job->some({0, 2}, "sym_collectives pair 1024 100000");
  job->some({0, 2}, "sym_destroy pair");
  job->all("sym_collectives h 1024 100000");
}

TEST_F(MulticastTest, DestroyedHandleLeavesNothing) {
  const auto job = met(2);
  const auto descriptors = [&](int rank) {
    const std::filesystem::directory_iterator all("/proc/" + std::to_string((*job)[rank].pid()) +
                                                  "/fd");
    return std::distance(begin(all), end(all));
  };
  job->all("sym_destroy h");
  const auto of_0 = descriptors(0), of_1 = descriptors(1);
  meeting_.meet(*job, "again", {0, 1});
  EXPECT_GT(descriptors(0), of_0);
  job->all("sym_destroy again");
  EXPECT_EQ(descriptors(0), of_0);
  EXPECT_EQ(descriptors(1), of_1);
  for (const std::string& unbound : job->all("calls_of cuMulticastUnbind")) EXPECT_EQ(unbound, "2");
}

// Kernels use the multicast address until they end.
TEST_F(MulticastTest, DestructionWaitsForTheWorkOfTheDevice) {
  const auto job = met(2);
  jobs::RankProcess& rank = (*job)[0];
  const auto calls = [&](const std::string& function) {
    return std::stol(rank.ask("calls_of " + function));
  };
  const long waits = calls("cuMemFreeHost");
  rank.ask("begin_work");
  rank.ask("thread destroyer sym_destroy h");
  wait_for("the call waits for the device, or goes on",
           [&] { return calls("cuMemFreeHost") > waits || calls("cuMulticastUnbind") > 0; });
  EXPECT_EQ(calls("cuMulticastUnbind"), 0);
  rank.ask("end_work");
  rank.ask("wait destroyer");
  EXPECT_EQ(calls("cuMulticastUnbind"), 1);
  (*job)[1].ask("sym_destroy h");
}

TEST_F(MulticastTest, SwitchIsOffByDefaultAndNothingIsCalled) {
  setup_.environment.erase("AMEM_MULTICAST");
  const auto job = met(2);
  expect_works_without(*job);
  for (const std::string& calls : job->all(kMulticastCalls)) EXPECT_EQ(calls, "0");
  (*job)[0].ask("tag_pause symmetric");
  EXPECT_EQ(totals((*job)[0]).resident, 0u);
  (*job)[0].ask("tag_resume symmetric");
  job->all("sym_collectives h 100000");
}

TEST_F(MulticastTest, GpuWithoutItOnOneRankTurnsItOffForAll) {
  setup_.environment_of_rank[1] = {{"AMEM_SIM_MULTICAST", "0"}};
  expect_works_without(*met(2));
}

TEST_F(MulticastTest, SwitchOffOnOneRankTurnsItOffForAll) {
  setup_.environment_of_rank[0] = {{"AMEM_MULTICAST", "0"}};
  expect_works_without(*met(2));
}

TEST_F(MulticastTest, RanksThatShareAGpuHaveNone) { expect_works_without(*met(2, {1, 1})); }

TEST_F(MulticastTest, OneRankHasNone) { expect_works_without(*met(1)); }

TEST_F(MulticastTest, MisuseIsNamedAndHasNoEffect) {
  const auto job = met(2);
  const std::map<std::string, std::string> texts{
      {"multimem_overlap", "overlaps"},
      {"multimem_too_large", "are not inside the buffer of"},
      {"multimem_null", "the input or output is null"},
  };
  for (const auto& [kind, text] : texts) {
    const std::string failure = (*job)[0].ask_failing("sym_misuse " + kind + " h b");
    EXPECT_TRUE(has(failure, text)) << kind << ": " << failure;
  }
  job->all("sym_collectives h 4096");
}

}  // namespace
}  // namespace amem
