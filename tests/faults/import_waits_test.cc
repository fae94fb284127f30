// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// A call of NCCL that imports memory of a process which has paused since the call began.
#include <sys/wait.h>

#include <csignal>

#include "tests/faults/fault_test.h"
#include "tests/process/progress.h"

namespace amem {
namespace {

/// Rank 1 is inside a group that connects to rank 2, which has stopped, and then to rank 0, which
/// has sent it a message and is paused. When rank 2 goes on, rank 1 waits for rank 0.
class ImportOfAPausedRank : public FaultTest {
 protected:
  explicit ImportOfAPausedRank(bool resumes_on_call = false) {
    setup_.environment["AMEM_TIMEOUT_MS"] = milliseconds(kTimeoutMs);
    setup_.environment["AMEM_RESUME_ON_CALL"] = resumes_on_call ? "1" : "0";
    setup_.environment["GMM_LOG"] = resumes_on_call ? "3" : "2";
    job_ = std::make_unique<jobs::Job>(setup_, 3);
    job_->use_devices({0, 1, 2});
    job_->make("world");
    rank(2).ask("variable AMEM_TEST_STEP_POINT fetch_asked=" + std::to_string(SIGSTOP));
    for (const char* order : kGroup) rank(1).ask(std::string("thread a ") + order);
    rank(2).ask("thread a call ncclAllReduce world");
    wait_for("rank 2 stops", [this] {
      int status = 0;
      return waitpid(rank(2).pid(), &status, WUNTRACED | WNOHANG) > 0 && WIFSTOPPED(status);
    });
    rank(0).ask("send world 16 1");
    rank(0).ask("pause");
    rank(2).kill(SIGCONT);
    if (resumes_on_call) return;
    wait_for("rank 1 waits", [this] {
      return has(rank(1).log(), "an import waits for the process that owns the memory: " + owner());
    });
    start_ = std::chrono::steady_clock::now();
  }

  jobs::RankProcess& rank(int number) { return (*job_)[number]; }
  std::string owner() { return "process " + std::to_string(rank(0).pid()); }
  /// Before a deadline has passed, also of NCCL in another rank, whose end this one would notice.
  void expect_in_time() {
    EXPECT_LT(std::chrono::steady_clock::now() - start_, std::chrono::seconds(8) * kSlowdown);
  }
  /// Rank 0 is active again.
  void expect_all_go_on() {
    rank(0).ask("call ncclAllReduce world");
    for (size_t call = 0; call < std::size(kGroup); ++call) rank(1).ask("wait a");
    rank(2).ask("wait a");
    job_->all("pause");
    job_->all("resume");
    job_->all("call ncclAllReduce world");
  }
  void end_the_others() {
    rank(0).ask("resume");
    for (const int other : {0, 2}) rank(other).ask("abort world");
    EXPECT_NE(rank(2).ask_failing("wait a"), "");
  }

  static constexpr const char* kGroup[] = {"call ncclGroupStart world", "call ncclRecv world",
                                           "call ncclAllReduce world", "call ncclGroupEnd world"};
  static constexpr long kTimeoutMs = 20000;
  std::unique_ptr<jobs::Job> job_;
  std::chrono::steady_clock::time_point start_;
};

TEST_F(ImportOfAPausedRank, RefusesAPauseAtOnceAndSucceedsAfterTheResume) {
  const std::string text = rank(1).ask_failing("pause");

  expect_in_time();
  EXPECT_TRUE(has(text, "is inside ncclGroupEnd, and NCCL waits to import memory of " + owner() +
                            ", which is paused: resume that process first"))
      << text;
  rank(0).ask("resume");
  expect_all_go_on();
  // Its values are counted by all ranks alike.
  job_->make("next");
  job_->all("check next" + counts());
}

TEST_F(ImportOfAPausedRank, EndsWithItsCommunicator) {
  rank(1).ask("thread b abort world");

  rank(1).ask("wait b");

  expect_in_time();
  EXPECT_TRUE(
      has(rank(1).log(), "cannot import memory of " + owner() + ": the communicator was aborted"))
      << rank(1).log();
  end_the_others();
}

class ImportOfARankThatResumesOnCall : public ImportOfAPausedRank {
 protected:
  ImportOfARankThatResumesOnCall() : ImportOfAPausedRank(true) {}
};

TEST_F(ImportOfARankThatResumesOnCall, ResumesItsOwner) {
  wait_for("rank 0 is resumed", [this] { return rank(0).ask("state") == "0"; });
  EXPECT_TRUE(has(rank(0).log(), "for a waiting call of another process")) << rank(0).log();

  expect_all_go_on();
}

/// A handler before amem's own aborts; one after it waits for the thread that imports.
class ImportOfAPausedRankAtExit : public ImportOfAPausedRank,
                                  public testing::WithParamInterface<const char*> {};

TEST_P(ImportOfAPausedRankAtExit, DoesNotHoldUpAHandler) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the program's own objects end beside the thread that imports";
#endif
  for (size_t call = 1; call < std::size(kGroup); ++call) rank(1).ask("wait a");
  rank(1).ask(std::string("at_exit ") + GetParam());
  rank(1).order("exit_with 7");

  const int status = rank(1).wait_until_ended();

  expect_in_time();
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status << rank(1).log();
  EXPECT_TRUE(has(rank(1).log(), "cannot import memory of " + owner())) << rank(1).log();
  end_the_others();
}

INSTANTIATE_TEST_SUITE_P(Handlers, ImportOfAPausedRankAtExit,
                         testing::Values("first abort world", "last wait a"),
                         [](const auto& handler) {
                           return std::string(handler.param).substr(0, 4) == "last" ? "Late"
                                                                                    : "Early";
                         });

}  // namespace
}  // namespace amem
