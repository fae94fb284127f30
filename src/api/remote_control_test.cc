// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "api/remote_control.h"

#include <thread>

#include "tests/slowdown.h"
#include "tests/support/session_fixture.h"

namespace amem {
namespace {

using Action = Control::Action;
using State = ControlReply::State;

constexpr pid_t kCommand = 17;
constexpr uint32_t kLongMs = 20000;

class RemoteControlTest : public SessionTest {
 protected:
  ControlReply send(const Control& request, pid_t from = kCommand) {
    return remote_.answer(request, from);
  }
  /// The state when the pause or resume has ended.
  ControlReply settled() {
    const Deadline deadline = patience();
    ControlReply reply = send({});
    while ((reply.state == State::pausing || reply.state == State::resuming) &&
           !deadline.passed()) {
      std::this_thread::yield();
      reply = send({});
    }
    return reply;
  }
  ControlReply reached(State state) {
    const Deadline deadline = patience();
    while (send({}).state != state && !deadline.passed()) std::this_thread::yield();
    return send({});
  }
  /// A thread of the program that is at a safe point until it may go on.
  std::thread at_safe_point(bool* was_paused) {
    return std::thread([this, was_paused] {
      RemoteControl::count_safe_point();
      *was_paused = remote_.holds() && remote_.wait_at_safe_point();
    });
  }

  CallGate gate_{context_.peer_table};
  RemoteControl remote_{context_, session_, gate_};
};

TEST_F(RemoteControlTest, PausesAtTheSafePointAndResumes) {
  const BackingId nccl = add("nccl"), weights = add("weights");
  const uint64_t next = send({Action::hold, kCommand, 0, kLongMs}).safe_points + 1;
  bool was_paused = false;
  std::thread program = at_safe_point(&was_paused);
  EXPECT_EQ(reached(State::held).safe_points, next);

  EXPECT_TRUE(send({Action::pause, kCommand, next, 0, {"nccl", "weights"}}).ok);
  const ControlReply paused = settled();
  EXPECT_TRUE(paused.ok) << paused.text;
  EXPECT_EQ(paused.state, State::paused);
  EXPECT_EQ(backing_state(nccl), BackingState::released);
  EXPECT_EQ(backing_state(weights), BackingState::released);
  EXPECT_NE(remote_.json().find("\"pid\": 17"), std::string::npos) << remote_.json();

  EXPECT_TRUE(send({Action::resume, kCommand}).ok);
  program.join();
  EXPECT_EQ(settled().state, State::running);
  EXPECT_TRUE(was_paused);
  EXPECT_TRUE(is_intact(nccl) && is_intact(weights));
}

TEST_F(RemoteControlTest, HoldsAtTheNumberedSafePointAndNotBefore) {
  const uint64_t later = send({Action::hold, kCommand, 0, kLongMs}).safe_points + 2;
  EXPECT_TRUE(send({Action::hold, kCommand, later, kLongMs}).ok);
  bool was_paused = true;
  at_safe_point(&was_paused).join();
  EXPECT_FALSE(was_paused);
  std::thread program = at_safe_point(&was_paused);
  EXPECT_EQ(reached(State::held).safe_points, later);
  EXPECT_TRUE(send({Action::release, kCommand}).ok);
  program.join();
  EXPECT_FALSE(was_paused);
  EXPECT_FALSE(remote_.holds());
}

TEST_F(RemoteControlTest, HoldEndsByItself) {
  send({Action::hold, kCommand, 0, 30});
  bool was_paused = true;
  at_safe_point(&was_paused).join();
  EXPECT_FALSE(was_paused);
  EXPECT_FALSE(remote_.holds());
}

TEST_F(RemoteControlTest, PauseOfOtherMemoryThanNcclNeedsTheSafePoint) {
  const BackingId weights = add("weights");
  const uint64_t last = send({}).safe_points;
  for (const std::vector<Tag>& tags : {std::vector<Tag>{}, {"weights"}, {"nccl", "weights"}}) {
    const ControlReply refused = send({Action::pause, kCommand, last, 0, tags});
    EXPECT_FALSE(refused.ok);
    EXPECT_NE(refused.text.find("does not wait at safe point"), std::string::npos) << refused.text;
  }
  send({Action::hold, kCommand, 0, kLongMs});
  bool was_paused = false;
  std::thread program = at_safe_point(&was_paused);
  (void)reached(State::held);
  EXPECT_FALSE(send({Action::pause, kCommand, last}).ok) << "it is at another one";
  send({Action::release, kCommand});
  program.join();
  EXPECT_TRUE(is_intact(weights));
}

TEST_F(RemoteControlTest, HoldOfOneCommandIsNotChangedByAnother) {
  EXPECT_TRUE(send({Action::hold, kCommand, 0, kLongMs}).ok);
  const ControlReply refused = send({Action::hold, kCommand + 1, 0, kLongMs}, kCommand + 1);
  EXPECT_FALSE(refused.ok);
  EXPECT_NE(refused.text.find("process 17"), std::string::npos) << refused.text;
  (void)send({Action::release, kCommand + 1}, kCommand + 1);
  EXPECT_TRUE(remote_.holds());
  EXPECT_TRUE(send({Action::hold, kCommand, 0, kLongMs}).ok);
  (void)send({Action::release, kCommand});
  EXPECT_FALSE(remote_.holds());
}

TEST_F(RemoteControlTest, MemoryOfNcclIsPausedAtOnceAndCallsResumeIt) {
  const BackingId nccl = add("nccl"), weights = add("weights");
  EXPECT_TRUE(send({Action::pause, kCommand, 0, 0, {"nccl"}}).ok);
  EXPECT_EQ(settled().state, State::paused);
  EXPECT_EQ(backing_state(nccl), BackingState::released);
  EXPECT_TRUE(is_intact(weights));
  EXPECT_NE(gate_.remote_pause(), 0u);
  ASSERT_TRUE(session_.resume({{"nccl"}}).ok()) << "as a call does";
  EXPECT_EQ(send({}).state, State::running);
  EXPECT_EQ(gate_.remote_pause(), 0u);
}

TEST_F(RemoteControlTest, PauseThatFailsLetsTheProgramGoOn) {
  const BackingId weights = add("weights");
  second_.refusal = make_error(ErrorKind::timeout, 0, "work does not end");
  const uint64_t next = send({Action::hold, kCommand, 0, kLongMs}).safe_points + 1;
  bool was_paused = false;
  std::thread program = at_safe_point(&was_paused);
  (void)reached(State::held);
  EXPECT_TRUE(send({Action::pause, kCommand, next, 0, {"weights"}}).ok);
  program.join();
  const ControlReply failed = settled();
  EXPECT_FALSE(failed.ok);
  EXPECT_TRUE(failed.was_late);
  EXPECT_EQ(failed.state, State::running);
  EXPECT_NE(failed.text.find("work does not end"), std::string::npos) << failed.text;
  EXPECT_TRUE(was_paused);  // contents that are not kept may have left before it failed
  EXPECT_TRUE(is_intact(weights));
}

/// A pause waits for work for a short time; a copy that is queued ends long afterwards.
class SlowCopiesTest : public RemoteControlTest {
 protected:
  static constexpr long kDrainMs = 1000 * kSlowdown;

  SlowCopiesTest() {
    static decltype(driver_.cuMemcpyDtoHAsync_v2) to_host;
    static decltype(driver_.cuMemcpyHtoDAsync_v2) from_host;
    to_host = driver_.cuMemcpyDtoHAsync_v2;
    from_host = driver_.cuMemcpyHtoDAsync_v2;
    copied_at_ = Deadline::after_ms(2 * kDrainMs);
    driver_.cuMemcpyDtoHAsync_v2 = [](void* to, DeviceAddress from, size_t bytes,
                                      DriverStream stream) {
      if (!is_back_) (void)Waiter<bool>().get(copied_at_);
      return to_host(to, from, bytes, stream);
    };
    driver_.cuMemcpyHtoDAsync_v2 = [](DeviceAddress to, const void* from, size_t bytes,
                                      DriverStream stream) {
      if (is_back_) (void)Waiter<bool>().get(copied_at_);
      return from_host(to, from, bytes, stream);
    };
  }

  static inline Deadline copied_at_ = Deadline::after_ms(0);
  static inline std::atomic<bool> is_back_ = false;  ///< the copies of a rollback are slow
};

TEST_F(SlowCopiesTest, DoNotEndAPauseThatWaitsForWorkForAShortTime) {
  const BackingId nccl = add("nccl");
  is_back_ = false;
  EXPECT_TRUE(send({Action::pause, kCommand, 0, kDrainMs, {"nccl"}}).ok);
  const ControlReply paused = settled();
  EXPECT_TRUE(copied_at_.passed());
  EXPECT_TRUE(paused.ok) << paused.text;
  EXPECT_EQ(paused.state, State::paused);
  EXPECT_EQ(backing_state(nccl), BackingState::released);
}

TEST_F(SlowCopiesTest, DoNotEndTheRollbackOfAPauseThatFails) {
  std::vector<BackingId> all;
  for (int i = 0; i < 3; ++i) all.push_back(add("nccl"));
  set_failing_copy(3);
  is_back_ = true;
  EXPECT_TRUE(send({Action::pause, kCommand, 0, kDrainMs, {"nccl"}}).ok);
  const ControlReply failed = settled();
  EXPECT_TRUE(copied_at_.passed());
  EXPECT_FALSE(failed.ok);
  EXPECT_EQ(failed.state, State::running) << failed.text;
  for (const BackingId id : all) EXPECT_TRUE(is_intact(id)) << id;
}

// AMEM_TIMEOUT_MS is 60 s.
TEST_F(RemoteControlTest, PauseWaitsForWorkNoLongerThanItIsTold) {
  const BackingId nccl = add("nccl");
  const auto released = std::make_shared<Waiter<bool>>();
  const auto held = devices_.start({{kDevice, [released] {
                                       (void)released->get(patience());
                                       return ok_status();
                                     }}});
  EXPECT_TRUE(send({Action::pause, kCommand, 0, 50, {"nccl"}}).ok);
  const ControlReply failed = settled();
  EXPECT_FALSE(failed.ok);
  EXPECT_TRUE(failed.was_late) << failed.text;
  EXPECT_EQ(failed.state, State::running);
  EXPECT_TRUE(is_intact(nccl));
  released->give(true);
  EXPECT_TRUE(DeviceThreads::wait(held, "the test", patience()).ok());
  EXPECT_TRUE(send({Action::pause, kCommand, 0, kLongMs, {"nccl"}}).ok);
  EXPECT_EQ(settled().state, State::paused);
}

TEST_F(RemoteControlTest, ResumeThatFailsCanBeRequestedAgain) {
  const BackingId nccl = add("nccl");
  EXPECT_TRUE(send({Action::pause, kCommand, 0, 0, {"nccl"}}).ok);
  EXPECT_EQ(settled().state, State::paused);
  set_room(0);
  EXPECT_TRUE(send({Action::resume, kCommand}).ok);
  const ControlReply failed = settled();
  EXPECT_FALSE(failed.ok);
  EXPECT_EQ(failed.state, State::paused);
  set_room(8);
  EXPECT_TRUE(send({Action::resume, kCommand}).ok);
  EXPECT_EQ(settled().state, State::running);
  EXPECT_TRUE(is_intact(nccl));
}

TEST_F(RemoteControlTest, PauseOfTheProgramAfterAResumeIsItsOwn) {
  const BackingId nccl = add("nccl");
  EXPECT_TRUE(send({Action::pause, kCommand, 0, 0, {"nccl"}}).ok);
  EXPECT_EQ(settled().state, State::paused);
  ASSERT_TRUE(session_.resume({{"nccl"}}).ok());
  remote_.note_resume();
  ASSERT_TRUE(session_.pause({{"nccl"}}).ok());
  EXPECT_EQ(send({}).state, State::running);
  EXPECT_EQ(gate_.remote_pause(), 0u);
  EXPECT_TRUE(send({Action::resume, kCommand}).ok);
  EXPECT_EQ(session_.state("nccl"), SessionState::paused);
  ASSERT_TRUE(session_.resume({{"nccl"}}).ok());
  EXPECT_TRUE(is_intact(nccl));
}

TEST_F(RemoteControlTest, PauseOfTheProgramTakesOverThatOfTheCommand) {
  const BackingId nccl = add("nccl"), weights = add("weights");
  EXPECT_TRUE(send({Action::pause, kCommand, 0, 0, {"nccl"}}).ok);
  EXPECT_EQ(settled().state, State::paused);
  ASSERT_TRUE(session_.pause({{"weights"}}).ok());
  remote_.note_pause({"weights"});
  EXPECT_NE(gate_.remote_pause(), 0u) << "of other memory";
  ASSERT_TRUE(session_.pause({}).ok());
  remote_.note_pause({});
  EXPECT_EQ(gate_.remote_pause(), 0u);
  EXPECT_EQ(send({Action::resume, kCommand}).state, State::running);
  EXPECT_EQ(session_.state("nccl"), SessionState::paused);
  ASSERT_TRUE(session_.resume({}).ok());
  EXPECT_TRUE(is_intact(nccl) && is_intact(weights));
}

TEST_F(RemoteControlTest, PauseOfAThreadWhileAnotherIsAtTheSafePointIsItsOwn) {
  const BackingId nccl = add("nccl"), weights = add("weights");
  const uint64_t next = send({Action::hold, kCommand, 0, kLongMs}).safe_points + 1;
  bool was_paused = false;
  std::thread program = at_safe_point(&was_paused);
  (void)reached(State::held);
  EXPECT_TRUE(send({Action::pause, kCommand, next, 0, {"nccl", "weights"}}).ok);
  EXPECT_EQ(settled().state, State::paused);
  ASSERT_TRUE(session_.pause({{"weights"}}).ok());
  remote_.note_pause({"weights"});
  EXPECT_TRUE(send({Action::resume, kCommand}).ok);
  program.join();
  EXPECT_TRUE(was_paused);
  EXPECT_TRUE(is_intact(nccl));
  EXPECT_EQ(session_.state("weights"), SessionState::paused);
  ASSERT_TRUE(session_.resume({}).ok());
  EXPECT_TRUE(is_intact(weights));
}

TEST_F(RemoteControlTest, CallThatHasResumedDoesNotEndTheNextPause) {
  const BackingId nccl = add("nccl");
  EXPECT_TRUE(send({Action::pause, kCommand, 0, 0, {"nccl"}}).ok);
  EXPECT_EQ(settled().state, State::paused);
  const uint64_t first = gate_.remote_pause();
  ASSERT_TRUE(session_.resume({{"nccl"}}).ok());
  EXPECT_EQ(send({}).state, State::running);
  EXPECT_TRUE(send({Action::pause, kCommand, 0, 0, {"nccl"}}).ok);
  gate_.end_remote_pause(first);
  EXPECT_NE(gate_.remote_pause(), 0u);
  EXPECT_EQ(settled().state, State::paused);
  EXPECT_TRUE(send({Action::resume, kCommand}).ok);
  EXPECT_EQ(settled().state, State::running);
  EXPECT_TRUE(is_intact(nccl));
}

TEST_F(RemoteControlTest, ProcessWithoutTheTagsWaitsWithItsJob) {
  const BackingId nccl = add("nccl");
  const uint64_t next = send({Action::hold, kCommand, 0, kLongMs}).safe_points + 1;
  bool was_paused = false;
  std::thread program = at_safe_point(&was_paused);
  (void)reached(State::held);
  EXPECT_TRUE(send({Action::pause, kCommand, next, 0, {"of-others"}}).ok);
  EXPECT_EQ(settled().state, State::paused);
  EXPECT_TRUE(is_intact(nccl));
  EXPECT_TRUE(send({Action::resume, kCommand}).ok);
  program.join();
  EXPECT_EQ(settled().state, State::running);
}

TEST_F(RemoteControlTest, StaysAtTheSafePointAfterTheResumeUntilAllRanksAreBack) {
  const BackingId nccl = add("nccl"), weights = add("weights");
  const uint64_t next = send({Action::hold, kCommand, 0, kLongMs}).safe_points + 1;
  bool was_paused = false;
  std::thread program = at_safe_point(&was_paused);
  (void)reached(State::held);
  EXPECT_TRUE(send({Action::pause, kCommand, next, 0, {"weights"}}).ok);
  EXPECT_EQ(settled().state, State::paused);

  constexpr uint64_t kResumer = kCommand + 1;
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(send({Action::hold, kResumer, next, kLongMs}).ok);
    EXPECT_TRUE(send({Action::resume, kResumer}).ok);
    EXPECT_EQ(settled().state, State::held);
    EXPECT_TRUE(is_intact(weights));
    if (i > 0) break;
    EXPECT_TRUE(send({Action::pause, kResumer, next}).ok) << "another rank is not back";
    EXPECT_EQ(settled().state, State::paused);
    EXPECT_EQ(backing_state(weights), BackingState::released);
    EXPECT_TRUE(is_intact(nccl)) << "it was not paused before";
  }
  (void)send({Action::release, kResumer});
  program.join();
  EXPECT_TRUE(was_paused);
}

TEST_F(RemoteControlTest, StaysForTheNextCommandThatResumes) {
  (void)add("weights");
  const uint64_t next = send({Action::hold, kCommand, 0, kLongMs}).safe_points + 1;
  bool was_paused = false;
  std::thread program = at_safe_point(&was_paused);
  (void)reached(State::held);
  EXPECT_TRUE(send({Action::pause, kCommand, next, 0, {"weights"}}).ok);
  EXPECT_EQ(settled().state, State::paused);
  const ControlReply again = send({Action::hold, kCommand + 1, 0, kLongMs});
  EXPECT_FALSE(again.ok) << "a second pause";
  EXPECT_NE(again.text.find("process 17 has paused it already"), std::string::npos) << again.text;
  for (const bool has_room : {false, true}) {
    set_room(has_room ? 8 : 0);
    const uint64_t resumer = kCommand + (has_room ? 3 : 2);
    EXPECT_EQ(send({Action::hold, resumer, next, kLongMs}).command, resumer);
    EXPECT_TRUE(send({Action::resume, resumer}).ok);
    EXPECT_EQ(settled().state, has_room ? State::held : State::paused);
  }
  (void)send({Action::release, kCommand + 3});
  program.join();
  EXPECT_TRUE(was_paused);
}

TEST_F(RemoteControlTest, GoesOnAfterTheResumeOfACommandThatHasEnded) {
  (void)add("weights");
  const uint64_t next = send({Action::hold, kCommand, 0, kLongMs}).safe_points + 1;
  bool was_paused = false;
  std::thread program = at_safe_point(&was_paused);
  (void)reached(State::held);
  EXPECT_TRUE(send({Action::pause, kCommand, next, 0, {"weights"}}).ok);
  EXPECT_EQ(settled().state, State::paused);
  EXPECT_TRUE(send({Action::hold, kCommand, next, 50}).ok);
  EXPECT_TRUE(send({Action::resume, kCommand}).ok);
  program.join();
  EXPECT_TRUE(was_paused);
}

TEST_F(RemoteControlTest, RefusesWhileAnotherThreadHasSafePointsToo) {
  RemoteControl::count_safe_point();
  std::atomic<bool> ends = false;
  std::atomic<bool> is_there = false;
  std::thread other([&] {
    RemoteControl::count_safe_point();
    is_there = true;
    while (!ends) std::this_thread::yield();
  });
  while (!is_there) std::this_thread::yield();
  RemoteControl::count_safe_point();
  const ControlReply refused = send({Action::hold, kCommand, 0, kLongMs});
  EXPECT_FALSE(refused.ok);
  EXPECT_NE(refused.text.find("both reach safe points"), std::string::npos) << refused.text;
  EXPECT_FALSE(remote_.holds());
  ends = true;
  other.join();
  const Deadline deadline = patience();  // the kernel may know the thread a moment longer
  while (!send({Action::hold, kCommand, 0, kLongMs}).ok && !deadline.passed())
    std::this_thread::yield();
  EXPECT_TRUE(remote_.holds()) << "the other thread has ended";
  (void)send({Action::release, kCommand});
}

/// A thread of the program that reaches as many safe points as it is told.
class Stepper {
 public:
  ~Stepper() {
    ends_ = true;
    thread_.join();
  }
  void steps(int count) {
    for (wanted_ += count; reached_ < wanted_;) std::this_thread::yield();
  }

 private:
  std::atomic<bool> ends_ = false;
  std::atomic<int> wanted_ = 0, reached_ = 0;
  std::thread thread_{[this] {
    for (; !ends_; std::this_thread::yield())
      for (; reached_ < wanted_; ++reached_) RemoteControl::count_safe_point();
  }};
};

TEST_F(RemoteControlTest, HoldsAThreadThatHasTakenTheSafePointsOverFromOneThatLives) {
  const auto hold = [&] { return send({Action::hold, kCommand, 0, kLongMs}); };
  Stepper first, second;
  first.steps(3);
  second.steps(15);
  const ControlReply early = hold();
  EXPECT_FALSE(early.ok);
  EXPECT_NE(early.text.find("ask again some steps later"), std::string::npos) << early.text;
  second.steps(1);
  EXPECT_TRUE(hold().ok);
  (void)send({Action::release, kCommand});

  first.steps(1);
  EXPECT_FALSE(hold().ok);
  second.steps(1000);
  const ControlReply later = hold();
  EXPECT_FALSE(later.ok) << "they alternate";
  EXPECT_NE(later.text.find("let one thread reach them all"), std::string::npos) << later.text;
}

}  // namespace
}  // namespace amem
