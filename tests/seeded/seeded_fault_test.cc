// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Negative controls: each scenario passes, and fails when the library breaks the protocol on
// purpose. The library is the one that is compiled with AMEM_SEEDED_FAULTS.
#include <signal.h>

#include <functional>

#include "tests/process/meeting.h"
#include "tests/process/simulated_job.h"

namespace amem {
namespace {

class SeededFault : public JobTest {
 protected:
  using Scenario = std::function<void(jobs::Job&)>;

  SeededFault() {
    const char* const rank_program = getenv("AMEM_TEST_SEEDED_RANK_PROGRAM");
    setup_.rank_program = rank_program != nullptr ? rank_program : AMEM_SEEDED_RANK;
    setup_.deadline_ms = 8000 * kSlowdown;
    for (const char* name : {"AMEM_TIMEOUT_MS", "AMEM_GATE_TIMEOUT_MS"})
      setup_.environment[name] = milliseconds(1500);
  }

  /// Runs the scenario on two ranks with two communicators, used unequally so that no two
  /// allocations have the same contents. Empty when it passes, otherwise what failed.
  std::string run(const char* fault, const Scenario& scenario) {
    jobs::Job job(setup_, 2, {{"AMEM_TEST_SEEDED_FAULT", fault}});
    job.use_devices({0, 1});
    job.make("world");
    job.make("second");
    job.all("check world" + counts());
    job.all("check second 17");
    try {
      scenario(job);
    } catch (const std::exception& error) {
      // A rank that hangs in a collective does not end by itself.
      for (int rank : {0, 1}) job[rank].kill(SIGKILL);
      return error.what();
    }
    return "";
  }

  void expect_noticed(const char* fault, const Scenario& scenario) {
    EXPECT_EQ(run("", scenario), "");
    const std::string failure = run(fault, scenario);
    EXPECT_NE(failure, "") << fault << " was not noticed";
    RecordProperty("failure", failure.substr(0, 300));
  }

  static void one_cycle(jobs::Job& job) {
    job.all("pause");
    job.all("resume");
    for (const char* name : {"world", "second"}) job.all(std::string("check ") + name + counts());
  }
};

TEST_F(SeededFault, ContentsThatAreNotRestored) { expect_noticed("skip_restore", one_cycle); }

// Without slabs, and with the plainest of jobs.
TEST_F(SeededFault, ContentsThatAreNotRestoredOutsideSlabs) {
  setup_.environment["AMEM_SLAB"] = "0";
  expect_noticed("skip_restore", [](jobs::Job& job) {
    job.all("pause");
    job.all("resume");
    for (const char* name : {"world", "second"})
      job.all(std::string("all_reduce ") + name + " 2000");
  });
}

// What is left of P2P buffers: without their counters the next collective waits for ever.
TEST_F(SeededFault, HeadersThatAreNotRestored) { expect_noticed("skip_headers", one_cycle); }

// What another program left in the memory: with LL, words that are the flag of the step to come, so
// that a rank that looks before its peer has written takes them for data
// (prims_ll.h:56@v2.30.7-1).
TEST_F(SeededFault, PayloadThatAnotherProgramLeft) {
  if (real_gpu()) GTEST_SKIP() << "a real driver does not hand out what others left";
  setup_.environment["NCCL_PROTO"] = "LL";
  // Simulated memory that is not empty any more is slow to look at.
  setup_.environment["AMEM_TIMEOUT_MS"] = milliseconds(6000);
  const Scenario leave_payload = [](jobs::Job& job) {
    job.make("third");
    job.all("broadcast third 17 0");
    job.all("pause");
    job.all("leftover 2");  // the flag of the second step
    job.all("resume");
  };
  EXPECT_EQ(run("",
                [&](jobs::Job& job) {
                  leave_payload(job);
                  job.all("broadcast third 17 0");
                }),
            "");
  // Nobody sends: a receiver that has an answer took the payload for one.
  const std::string failure = run("skip_zeroing", [&](jobs::Job& job) {
    leave_payload(job);
    job[1].ask("broadcast third 17 0");
  });
  EXPECT_NE(failure.find("instead of"), failure.npos)
      << "skip_zeroing was not noticed: " << failure;
}

TEST_F(SeededFault, ContentsThatAreTakenForZero) { expect_noticed("take_all_for_zero", one_cycle); }

// A hash that says of other contents that they are the same.
TEST_F(SeededFault, ContentsThatAreTakenForUnchanged) {
  expect_noticed("take_all_for_unchanged", [](jobs::Job& job) {
    job[0].ask("tag_malloc weights retain 2000000");
    job[0].ask("tag_write weights");
    for (const char* word : {"5", "400000"}) {
      job[0].ask("tag_pause weights");
      job[0].ask("tag_resume weights");
      job[0].ask("tag_check weights");
      job[0].ask(std::string("tag_change weights ") + word);
    }
    job[0].ask("tag_pause weights");
    job[0].ask("tag_resume weights");
    job[0].ask("tag_check weights");
  });
}

// A message that was sent and not received is dropped with the FIFO in which it lies: what the
// setting asks for.
TEST_F(SeededFault, FifosThatAreNotKept) {
  const Scenario message_in_flight = [](jobs::Job& job) {
    job[0].ask("send second 17 1");
    job[1].ask("pause");
    job[1].ask("resume");
    job[1].ask("receive second 17 0");
  };
  EXPECT_EQ(run("", message_in_flight), "");
  setup_.environment["AMEM_NCCL_OFFLOAD_FREE_TAG"] = "7";
  EXPECT_NE(run("", message_in_flight), "");
}

TEST_F(SeededFault, ContentsOfAnotherAllocation) { expect_noticed("other_address", one_cycle); }

TEST_F(SeededFault, PauseThatDoesNotWaitForItsPeers) {
  // Rank 1 has work in flight that still uses rank 0's memory, so a pause has to be refused.
  expect_noticed("do_not_wait_for_gone", [](jobs::Job& job) {
    job[1].ask("enqueue second 17");
    job[0].ask_failing("pause");
    job[0].ask("enqueue second 17");
    one_cycle(job);
  });
}

TEST_F(SeededFault, CallsThatEnterAPausedProcess) {
  expect_noticed("leave_gate_open", [](jobs::Job& job) {
    job.all("pause");
    for (int rank : {0, 1}) {
      const std::string text = job[rank].ask_failing("all_reduce world 17");
      // A call that got into NCCL may fail too, but not because the gate refused it.
      if (job[rank].log().find("this process is paused") == std::string::npos)
        throw std::runtime_error("not refused by the gate: " + text);
    }
    job.all("resume");
    job.all("check world" + counts());
  });
}

TEST_F(SeededFault, CallsThatRunIntoAPausedPeer) {
  expect_noticed("leave_gate_open", [](jobs::Job& job) {
    job[0].ask("pause");
    const std::string text = job[1].ask_failing("all_reduce world 17");
    if (text.find("is paused") == std::string::npos)
      throw std::runtime_error("not held back by the gate: " + text);
    // The inputs of all ranks go with the number of their calls.
    job[0].ask_failing("all_reduce world 17");
    job[0].ask("resume");
    job.all("check world" + counts());
  });
}

/// Symmetric memory that both ranks have written and used.
void meet(jobs::Job& job, const Meeting& meeting) {
  job.all("sym_malloc b 2000000");
  meeting.meet(job, "h", {0, 1});
  job[0].ask("sym_write h 1 4711");
}

TEST_F(SeededFault, SymmetricContentsThatAreNotRestored) {
  const auto scenario = [](jobs::Job& job) {
    const Meeting meeting;
    meet(job, meeting);
    job[1].ask("tag_pause symmetric");
    job[1].ask("tag_resume symmetric");
    if (job[1].ask("sym_read b") != "4711") throw std::runtime_error("another word");
  };
  expect_noticed("skip_restore", scenario);
  expect_noticed("take_all_for_zero", scenario);
}

TEST_F(SeededFault, SymmetricCallsThatRunIntoAPausedPeer) {
  expect_noticed("leave_gate_open", [](jobs::Job& job) {
    const Meeting meeting;
    meet(job, meeting);
    job[1].ask("tag_pause symmetric");
    const std::string text = job[0].ask_failing("sym_barrier h 0 50");
    if (text.find("is paused") == std::string::npos)
      throw std::runtime_error("not held back on the host: " + text);
    job[1].ask("tag_resume symmetric");
    job.all("sym_barrier h 0 1000");
  });
}

// Not of the library but of this harness: what it says when a rank hangs.
TEST_F(SeededFault, RankThatHangsIsReportedWithTheLastStepOfAll) {
  setup_.deadline_ms = 4000 * kSlowdown;
  jobs::Job job(setup_, 2);
  job.use_devices({0, 1});
  job.make("world");
  job.all("all_reduce world 17");
  job[0].ask("variable AMEM_TEST_STEP_POINT pause_revoked=" + std::to_string(SIGSTOP));

  std::string report;
  try {
    job[0].ask("pause");
  } catch (const std::exception& error) {
    report = error.what();
  }
  job[0].kill(SIGKILL);

  const std::string first = "rank " + std::to_string(job[0].pid());
  const std::string second = "rank " + std::to_string(job[1].pid());
  EXPECT_TRUE(has(report, first + " did not answer 'pause'")) << report;
  EXPECT_TRUE(has(report, first + ": waits at 'pause', last step pause_revoked")) << report;
  EXPECT_TRUE(has(report, second + ": answered 'all_reduce world 17', last step revoke_unmapped"))
      << report;
}

}  // namespace
}  // namespace amem
