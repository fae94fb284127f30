// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Jobs that alternate keep their contents in the same host memory.
#include <signal.h>
#include <unistd.h>

#include <cstdint>

#include "base/user_folder.h"
#include "engine/room_ticket.h"
#include "tests/process/progress.h"
#include "tests/process/shared_host_memory.h"
#include "tests/process/simulated_job.h"

namespace amem {
namespace {

class HostLending : public JobTest {
 protected:
  static constexpr size_t kBytes = size_t{160} << 20;
  /// An eighth of what the jobs write is zero (jobs/tag_orders.cc).
  static constexpr size_t kSavedBytes = kBytes / 8 * 7;

  void SetUp() override { AMEM_NEEDS_GPUS(1); }

  /// A job of one process with contents.
  std::unique_ptr<jobs::Job> make_job(const std::string& group) {
    auto job = std::make_unique<jobs::Job>(
        setup_, 1, std::map<std::string, std::string>{{"AMEM_GROUP", group}});
    job->use_devices({0});
    (*job)[0].ask("tag_malloc weights keep " + std::to_string(kBytes));
    (*job)[0].ask("tag_write weights");
    return job;
  }
  static size_t host_bytes(jobs::Job& job) { return shared_host_bytes({job[0].pid()}); }
  static size_t host_bytes(jobs::Job& one, jobs::Job& other) {
    return shared_host_bytes({one[0].pid(), other[0].pid()});
  }
  static void pause(jobs::Job& job) { job[0].ask("tag_pause weights"); }
  static void resume(jobs::Job& job) {
    job[0].ask("tag_resume weights");
    EXPECT_EQ(job[0].ask("tag_check weights"), std::to_string(kBytes));
  }
};

TEST_F(HostLending, JobsThatAlternateNeedTheHostMemoryOfOne) {
  auto trainer = make_job("trainer"), engine = make_job("engine");
  size_t peak = 0;
  for (int cycle = 0; cycle < 4; ++cycle)
    for (jobs::Job* job : {trainer.get(), engine.get()}) {
      pause(*job);
      peak = std::max(peak, host_bytes(*trainer, *engine));
      resume(*job);
    }
  EXPECT_GE(peak, kSavedBytes);
  EXPECT_LE(peak, kSavedBytes / 100 * 107);
}

TEST_F(HostLending, JobsThatArePausedTogetherHaveTheirOwn) {
  auto trainer = make_job("trainer"), engine = make_job("engine");
  pause(*trainer);
  resume(*trainer);

  pause(*engine);
  pause(*trainer);

  EXPECT_GE(host_bytes(*trainer, *engine), 2 * kSavedBytes);
  resume(*engine);
  resume(*trainer);
}

TEST_F(HostLending, KilledBorrowerReturnsTheMemory) {
  auto trainer = make_job("trainer"), engine = make_job("engine");
  pause(*trainer);
  resume(*trainer);
  pause(*engine);

  (*engine)[0].kill(SIGKILL);
  (*engine)[0].wait_until_ended();

  pause(*trainer);
  EXPECT_LE(host_bytes(*trainer), kSavedBytes / 100 * 107);
  resume(*trainer);
}

TEST_F(HostLending, PausedBorrowerOutlivesWhoCreatedTheMemory) {
  auto trainer = make_job("trainer"), engine = make_job("engine");
  pause(*trainer);
  resume(*trainer);
  pause(*engine);
  ASSERT_LE(host_bytes(*trainer, *engine), kSavedBytes / 100 * 107);

  (*trainer)[0].kill(SIGKILL);
  (*trainer)[0].wait_until_ended();

  auto other = make_job("other");
  pause(*other);
  resume(*engine);
  resume(*other);
}

TEST_F(HostLending, ProcessThatIsStoppedIsNotWaitedFor) {
  auto trainer = make_job("trainer"), engine = make_job("engine");
  pause(*trainer);
  resume(*trainer);
  (*trainer)[0].kill(SIGSTOP);

  pause(*engine);

  (*trainer)[0].kill(SIGCONT);
  resume(*engine);
  pause(*trainer);
  resume(*trainer);
}

TEST_F(HostLending, TrimOfTheCreatorTakesNothingFromTheBorrower) {
  auto trainer = make_job("trainer"), engine = make_job("engine");
  pause(*trainer);
  resume(*trainer);
  pause(*engine);

  EXPECT_NE((*trainer)[0].ask("trim"), "0");

  pause(*trainer);
  resume(*engine);
  resume(*trainer);
}

TEST_F(HostLending, KeptMemoryIsNotLent) {
  setup_.environment["AMEM_HOST_KEEP"] = "1024";
  auto trainer = make_job("trainer"), engine = make_job("engine");
  pause(*trainer);
  resume(*trainer);

  pause(*engine);

  EXPECT_GE(host_bytes(*trainer, *engine), 2 * kSavedBytes);
  resume(*engine);
}

/// Jobs on a GPU with room for one of them, in pieces that move one after another.
class HostLendingInASwitch : public HostLending {
 protected:
  static constexpr size_t kPieces = 20, kPieceBytes = size_t{16} << 20;
  static constexpr size_t kSavedBytes = kPieces * kPieceBytes / 8 * 7;

  HostLendingInASwitch() {
    setup_.environment["AMEM_SIM_MEMORY_MB"] = "384";
    setup_.environment["AMEM_RESUME_WAIT_MS"] = milliseconds(30000);
  }
  /// Half of its pieces have each tag.
  std::unique_ptr<jobs::Job> make_paused(const std::string& group) {
    auto job = std::make_unique<jobs::Job>(
        setup_, 1, std::map<std::string, std::string>{{"AMEM_GROUP", group}});
    job->use_devices({0});
    for (size_t piece = 0; piece < kPieces; ++piece)
      (*job)[0].ask("tag_malloc " + std::string(piece % 2 == 0 ? "weights" : "optimizer") +
                    " keep " + std::to_string(kPieceBytes));
    for (const char* tag : {"weights", "optimizer"}) {
      (*job)[0].ask(std::string("tag_write ") + tag);
      (*job)[0].ask(std::string("tag_pause ") + tag);
    }
    return job;
  }
  /// A third process says that its pause will make room for all, and then fails.
  static void announce_room(jobs::Job& waits) {
    TicketEntry entry;
    RoomTicket failing;
    const auto opened = open_user_file(TicketEntry::kFile);
    const int file = opened.value().get();
    for (off_t at = 0; pread(file, &entry, sizeof entry, at) == sizeof entry; at += sizeof entry)
      if (entry.waits != 0)
        failing.announce({{entry.gpus[0], SIZE_MAX / 2}}, Deadline::after_ms(60000));
    const std::string created = "calls_of cuMemCreate", before = waits[0].ask(created);
    wait_for("the resume holds memory", [&] { return waits[0].ask(created) != before; });
  }
  static void check(jobs::Job& job) {
    for (const char* tag : {"weights", "optimizer"}) job[0].ask(std::string("tag_check ") + tag);
  }
  /// The order waits in the queue when this returns.
  static void begin_resume(jobs::Job& job) {
    job[0].ask("thread r tag_resume");
    RoomTicket none;
    wait_for("the resume is in the queue",
             [&] { return none.is_awaited({RoomTicket::kUnknownGpu}); });
  }
};

TEST_F(HostLendingInASwitch, TwoJobsNeedTheHostMemoryOfLittleMoreThanOne) {
  auto trainer = make_paused("trainer");
  auto engine = make_paused("engine");
  (*trainer)[0].ask("tag_resume");
  (*trainer)[0].ask("trim");  // both were paused together
  jobs::Job *active = trainer.get(), *paused = engine.get();
  for (int cycle = 0; cycle < 6; ++cycle) {
    begin_resume(*paused);
    (*active)[0].ask("tag_pause");
    (*paused)[0].ask("wait r");
    check(*paused);
    std::swap(active, paused);
  }
  // Segments stay pinned, so this is the peak.
  const size_t peak = host_bytes(*trainer, *engine);
  EXPECT_GE(peak, kSavedBytes);
  EXPECT_LT(peak, 2 * kSavedBytes);
}

TEST_F(HostLendingInASwitch, ResumeThatHasReturnedHostMemoryAndFailsSavesItsContentsAgain) {
  auto trainer = make_paused("trainer");
  setup_.environment["AMEM_RESUME_WAIT_MS"] = milliseconds(1500);
  auto engine = make_paused("engine");
  (*trainer)[0].ask("tag_resume");
  (*trainer)[0].ask("trim");
  const size_t before = used_bytes((*trainer)[0]);
  begin_resume(*engine);
  announce_room(*engine);
  (*trainer)[0].ask("tag_pause optimizer");  // half of the room
  const std::string text = (*engine)[0].ask_failing("wait r");
  EXPECT_NE(text.find("waited " + milliseconds(1500) + " ms"), text.npos) << text;
  EXPECT_EQ(text.find("on the GPU"), text.npos) << text;
  EXPECT_LE(used_bytes((*trainer)[0]), before - kPieces / 2 * kPieceBytes);

  (*trainer)[0].ask("tag_pause weights");
  (*engine)[0].ask("tag_resume");
  check(*engine);
}

TEST_F(HostLendingInASwitch, ContentsForWhichThereIsNoHostMemoryAgainStayOnTheGpu) {
  auto trainer = make_paused("trainer");
  setup_.environment["AMEM_RESUME_WAIT_MS"] = milliseconds(5000);
  auto engine = make_paused("engine");
  (*trainer)[0].ask("tag_resume");
  (*trainer)[0].ask("trim");
  begin_resume(*engine);
  // What the engine returns is used by the trainer then, and it can pin no other memory.
  (*engine)[0].ask("driver_fault cuMemHostRegister:1..=2");
  announce_room(*engine);
  (*trainer)[0].ask("tag_pause optimizer");
  const std::string text = (*engine)[0].ask_failing("wait r");
  EXPECT_NE(text.find("a part stays on the GPU"), text.npos) << text;

  (*engine)[0].ask("driver_fault");
  (*trainer)[0].ask("tag_pause weights");
  (*engine)[0].ask("tag_resume");
  check(*engine);
}

}  // namespace
}  // namespace amem
