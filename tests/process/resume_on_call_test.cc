// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Calls of a paused process with AMEM_RESUME_ON_CALL=1.
#include "tests/process/progress.h"
#include "tests/process/simulated_job.h"

namespace amem {
namespace {

class ResumeOnCall : public JobTest {
 protected:
  void SetUp() override {
    AMEM_NEEDS_GPUS(2);
    setup_.environment["AMEM_RESUME_ON_CALL"] = "1";
    setup_.environment["GMM_LOG"] = "3";
  }

  /// Two ranks of "world", and a third that can take the memory of the first one's GPU.
  std::unique_ptr<jobs::Job> pair_and_occupier() {
    auto job = std::make_unique<jobs::Job>(setup_, 3);
    job->use_devices({0, 1, 0});
    job->make("world", {0, 1});
    job->some({0, 1}, "check world" + counts());
    return job;
  }
  static void expect_paused(jobs::RankProcess& rank) {
    EXPECT_EQ(rank.ask("state"), "2");
    EXPECT_EQ(totals(rank).resident, 0u);
  }
  static void expect_active(jobs::RankProcess& rank) {
    EXPECT_EQ(rank.ask("state"), "0");
    EXPECT_EQ(totals(rank).resident, totals(rank).allocated);
  }

  size_t logged_ = 0;  ///< what the log of a rank had before
};

TEST_F(ResumeOnCall, WorkFindsItsMemoryAsBefore) {
  auto job = pair();
  for (int cycle = 0; cycle < 3; ++cycle) {
    job->all("pause");
    for (int rank : {0, 1}) expect_paused((*job)[rank]);
    job->all("check world" + counts());
    for (int rank : {0, 1}) expect_active((*job)[rank]);
  }
  EXPECT_TRUE(has((*job)[0].log(), "ncclAllReduce resumes the memory of NCCL")) << (*job)[0].log();
  // The caller's own resume is legal, and has nothing to do.
  job->all("resume");
  job->all("check world" + counts());
}

TEST_F(ResumeOnCall, GroupsAndGraphsToo) {
  auto job = pair();
  job->all("capture world 4096");
  job->all("pause");
  for (const char* order : {"group_start", "enqueue world 17", "group_end"}) job->all(order);
  for (int rank : {0, 1}) expect_active((*job)[rank]);
  job->all("pause");
  job->all("replay world");
  for (int rank : {0, 1}) expect_active((*job)[rank]);
  job->all("check world" + counts());
}

TEST_F(ResumeOnCall, CommunicatorsAreMadeAndTheFormerOnesWork) {
  auto job = pair();
  job->all("pause");
  job->make("second");
  for (int rank : {0, 1}) expect_active((*job)[rank]);
  for (const char* name : {"second", "world"}) job->all(std::string("check ") + name + counts());
}

/// Calls that need no memory leave the process paused.
TEST_F(ResumeOnCall, ThatOnlyAskOrEndResumeNothing) {
  auto job = pair();
  job->make("second");
  job->all("pause");
  for (const char* order :
       {"group_start", "abort second", "group_end", "version", "call ncclGetUniqueId world",
        "call ncclCommCount world", "call ncclCommGetAsyncError world"})
    job->all(order);
  for (int rank : {0, 1}) expect_paused((*job)[rank]);
  job->all("check world" + counts());
}

/// The call of one process that waits for another resumes both.
TEST_F(ResumeOnCall, ResumesTheMembersForWhichItWaits) {
  auto job = pair();
  job->all("capture world 4096");
  for (const char* order : {"check world 17", "replay world"})
    for (const int first : {0, 1}) {
      job->all("pause");
      (*job)[first].order(order);
      jobs::RankProcess& later = (*job)[1 - first];
      wait_for("the other is resumed", [&] { return later.ask("state") == "0"; });
      EXPECT_TRUE(has(later.log(), "for a waiting call of another process")) << later.log();
      later.ask(order);
      (*job)[first].answer();
    }
}

/// The root of a broadcast may be done, and paused, before the others have made their call.
TEST_F(ResumeOnCall, RootThatIsPausedResumesForItsReceivers) {
  auto job = pair();
  for (int cycle = 0; cycle < 3; ++cycle) {
    (*job)[0].ask("broadcast world 17 0");
    (*job)[0].ask("pause");
    (*job)[1].ask("broadcast world 17 0");
    // The call goes on when the memory is back, shortly before the resume ends.
    wait_for("the root is resumed", [&] { return (*job)[0].ask("state") == "0"; });
    for (int rank : {0, 1}) expect_active((*job)[rank]);
  }
}

/// Other processes cannot resume one whose own calls would fail.
TEST_F(ResumeOnCall, MemberThatIsOnlyResumedByItselfStaysPaused) {
  auto job = pair();
  (*job)[0].ask("resume_on_call 0");
  (*job)[0].ask("pause");
  (*job)[1].order("check world 17");
  wait_for("the call waits", [&] {
    return has((*job)[1].log(), "waits for a member of this communicator: process " +
                                    std::to_string((*job)[0].pid()));
  });
  expect_paused((*job)[0]);
  for (const char* order : {"resume", "check world 17"}) (*job)[0].ask(order);
  (*job)[1].answer();
}

/// A call that already waits for a member does not need the memory before that member is back.
TEST_F(ResumeOnCall, CallThatWaitsForAMemberLetsItsProcessPause) {
  auto job = pair();
  job->all("capture world 4096");
  (*job)[0].ask("resume_on_call 0");
  for (const char* order : {"check world 17", "replay world"}) {
    (*job)[0].ask("pause");
    (*job)[1].ask(std::string("thread caller ") + order);
    wait_for("the call waits", [&] {
      return has((*job)[1].log().substr(logged_), "waits for a member of this communicator");
    });
    logged_ = (*job)[1].log().size();
    (*job)[1].ask("pause");
    expect_paused((*job)[1]);

    (*job)[0].ask("resume");
    (*job)[0].ask(order);
    (*job)[1].ask("wait caller");
    for (int rank : {0, 1}) expect_active((*job)[rank]);
  }
  job->all("check world" + counts());
}

TEST_F(ResumeOnCall, OtherTagsStayPaused) {
  auto job = pair();
  for (int rank : {0, 1}) {
    (*job)[rank].ask("tag_malloc weights keep 4194304");
    (*job)[rank].ask("tag_pause");
    expect_paused((*job)[rank]);
  }
  job->all("check world" + counts());
  for (int rank : {0, 1}) {
    EXPECT_EQ((*job)[rank].ask("state"), "0");
    EXPECT_EQ((*job)[rank].ask("tag_totals weights").substr(0, 1), "2");
    (*job)[rank].ask("tag_resume");
  }
}

/// The call fails with the reason and can be repeated.
TEST_F(ResumeOnCall, WithoutRoomFailsAndLeavesTheProcessPaused) {
  auto job = pair_and_occupier();
  (*job)[0].ask("pause");
  (*job)[2].ask("occupy 8388608 77");  // room for the call, but not for the memory of NCCL
  const std::string text = (*job)[0].ask_failing("call ncclAllReduce world");
  EXPECT_TRUE(has(text, "MiB are needed")) << text;
  expect_paused((*job)[0]);

  (*job)[2].ask("drain");
  job->some({0, 1}, "check world" + counts());
  expect_active((*job)[0]);
}

/// The paused process is asked again.
TEST_F(ResumeOnCall, PeerThatWaitsGoesOnWhenThereIsRoomAgain) {
  auto job = pair_and_occupier();
  (*job)[0].ask("broadcast world 17 0");
  (*job)[0].ask("pause");
  (*job)[2].ask("occupy 8388608 77");
  (*job)[1].order("broadcast world 17 0");
  wait_for("the process cannot be resumed", [&] {
    return has((*job)[0].log(), "cannot resume for a waiting call of another process");
  });
  expect_paused((*job)[0]);

  (*job)[2].ask("drain");

  (*job)[1].answer();
  job->some({0, 1}, "check world" + counts());
}

}  // namespace
}  // namespace amem
