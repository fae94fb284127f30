// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// A pause keeps no FIFOs when it can know that no message is under way, and only then.
#include "tests/process/simulated_job.h"

namespace amem {
namespace {

class InStep : public JobTest {
 protected:
  InStep() { setup_.environment["GMM_LOG"] = "3"; }

  /// What a pause of these ranks copies on the last of them.
  static size_t copied_by_pause(jobs::Job& job, const std::vector<int>& ranks) {
    job.some(ranks, "pause");
    job.some(ranks, "resume");
    return copied(job[ranks.back()]).pause;
  }
  /// What is kept of FIFOs through which the largest messages went is more than all else.
  static void expect_kept(size_t bytes, size_t without_fifos) {
    EXPECT_GT(bytes, without_fifos + (256 << 10));
  }
};

TEST_F(InStep, FifosAreKeptForAMessageUnderWayAndNotAfterwards) {
  AMEM_NEEDS_GPUS(2);
  const auto job = pair();
  const size_t none = copied_by_pause(*job, {0, 1});

  (*job)[0].ask("send world 17 1");
  expect_kept(copied_by_pause(*job, {1}), none);
  expect_kept(copied_by_pause(*job, {0}), none);
  (*job)[1].ask("receive world 17 0");

  EXPECT_LT(copied_by_pause(*job, {0, 1}), none + (64 << 10));
  EXPECT_LT(copied_by_pause(*job, {1}), none + (64 << 10));
  job->all("check world" + counts());
}

// A message of one communicator, as the FIFOs do not tell whose they are, keeps those of all.
TEST_F(InStep, EveryCommunicatorIsLookedAt) {
  AMEM_NEEDS_GPUS(2);
  const auto job = pair();
  job->make("second");
  job->all("check second" + counts());
  const size_t none = copied_by_pause(*job, {0, 1});

  (*job)[0].ask("send second 17 1");
  expect_kept(copied_by_pause(*job, {1}), none);
  (*job)[1].ask("receive second 17 0");

  job->all("destroy second");
  EXPECT_LE(copied_by_pause(*job, {0, 1}), none);
  job->all("check world" + counts());
}

// Of a member with whom it shares no message a process keeps nothing, whatever others do.
TEST_F(InStep, OthersMessagesDoNotConcernUs) {
  AMEM_NEEDS_GPUS(3);
  jobs::Job job(setup_, 3);
  job.use_devices({0, 1, 2});
  job.make("world");
  job.all("check world" + counts());
  const size_t none = copied_by_pause(job, {0, 1, 2});

  job[0].ask("send world 17 1");
  EXPECT_LT(copied_by_pause(job, {2}), none + (64 << 10));
  expect_kept(copied_by_pause(job, {1}), none);
  job[1].ask("receive world 17 0");
  // Inputs go with the number of a rank's calls, which is equal for all after a round.
  job[1].ask("send world 17 2");
  job[2].ask("receive world 17 1");
  job[2].ask("send world 17 0");
  job[0].ask("receive world 17 2");
  job.all("check world" + counts());
}

// All ranks have to know the new communicator by the same name.
TEST_F(InStep, SplitThatWasRefusedIsNone) {
  AMEM_NEEDS_GPUS(2);
  const auto job = pair();
  (*job)[0].ask("pause");
  (*job)[0].ask_failing("call ncclCommSplit world");
  (*job)[0].ask("resume");
  job->all("split world half 0 0");
  job->all("check half" + counts());
  const size_t none = copied_by_pause(*job, {0, 1});

  (*job)[0].ask("send half 17 1");
  expect_kept(copied_by_pause(*job, {1}), none);
  (*job)[1].ask("receive half 17 0");
  EXPECT_LT(copied_by_pause(*job, {0, 1}), none + (64 << 10));
}

/// After which calls are not counted any more.
struct Doubt {
  const char* name;
  void (*act)(jobs::Job&);
};

void capture(jobs::Job& job) {
  job.all("capture world 17");
  job.all("replay world");
}
void make_without_blocking(jobs::Job& job) {
  const std::string id = job[0].ask("unique");
  for (const int rank : {0, 1})
    job[rank].ask("make_async second 2 " + std::to_string(rank) + " " + id);
  job.all("settle second");
}
void simulate(jobs::Job& job) {
  job.all("group_start");
  job.all("call ncclAllReduce world");
  job.all("call ncclGroupSimulateEnd world");
}
void fail(jobs::Job& job) {
  for (const int rank : {0, 1}) job[rank].ask_failing("send world 17 7");
}

class InDoubt : public InStep, public testing::WithParamInterface<Doubt> {};

TEST_P(InDoubt, FifosAreKept) {
  AMEM_NEEDS_GPUS(2);
  const auto job = pair();
  const size_t none = copied_by_pause(*job, {0, 1});
  ASSERT_FALSE(has((*job)[1].log(), "pauses copy all FIFOs from now on"));

  GetParam().act(*job);

  expect_kept(copied_by_pause(*job, {0, 1}), none);
  expect_kept(copied_by_pause(*job, {1}), none);
  EXPECT_TRUE(has((*job)[1].log(), "pauses copy all FIFOs from now on"));
  job->all("check world" + counts());
}

INSTANTIATE_TEST_SUITE_P(Jobs, InDoubt,
                         testing::Values(Doubt{"ThatCapture", capture},
                                         Doubt{"ThatDoNotBlock", make_without_blocking},
                                         Doubt{"ThatSimulate", simulate}, Doubt{"ThatFail", fail}),
                         [](const auto& doubt) { return std::string(doubt.param.name); });

// One of two is enough: it may have sent what nobody has counted.
TEST_F(InStep, DoubtOfANeighbourCounts) {
  AMEM_NEEDS_GPUS(2);
  const auto job = pair();
  const size_t none = copied_by_pause(*job, {0, 1});

  (*job)[0].ask_failing("send world 17 7");
  expect_kept(copied_by_pause(*job, {1}), none);

  (*job)[1].ask_failing("send world 17 7");  // inputs go with the number of a rank's calls
  job->all("check world" + counts());
}

}  // namespace
}  // namespace amem
