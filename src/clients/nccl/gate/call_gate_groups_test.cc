// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Groups, which are inside as a whole; work that does not pass the gate; the race of closing.
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "clients/nccl/gate/call_gate.h"
#include "clients/nccl/gate/capture_watch.h"
#include "clients/nccl/gate/testdata/call_gate_fixture.h"

namespace amem {
namespace {

class CallGateGroups : public CallGateFixture {
 protected:
  void end_group() {
    gate_.end_group("ncclGroupEnd", [] { return 0; });
  }
};

TEST_F(CallGateGroups, OpenGroupIsInsideUntilItsOutermostEnd) {
  std::promise<void> opened, may_end;
  auto call = std::async(std::launch::async, [&] {
    gate_.group_started("ncclGroupStart");
    gate_.group_started("ncclGroupStart");
    EXPECT_TRUE(enter("ncclSend", comm(1), 0).ok());
    end_group();
    opened.set_value();
    may_end.get_future().wait();
    end_group();
  });
  opened.get_future().wait();
  const CommunicatorIds first{kFirst};
  EXPECT_FALSE(gate_.wait_until_outside(&first, Deadline::after_ms(1)).ok());

  gate_.close_process("paused");
  may_end.set_value();
  EXPECT_TRUE(gate_.wait_until_outside(&first, Deadline::after_ms(30000)).ok());
}

TEST_F(CallGateGroups, OpenGroupWithoutCallsIsInsideToo) {
  gate_.group_started("ncclGroupStart");
  EXPECT_NE(who_is_inside(nullptr).find("is inside ncclGroupStart"), std::string::npos);
  const CommunicatorIds first{kFirst};
  EXPECT_EQ(who_is_inside(&first), "");
  end_group();
  EXPECT_EQ(who_is_inside(nullptr), "");
}

TEST_F(CallGateGroups, EndOfAGroupIsInsideLikeTheGroup) {
  gate_.group_started("ncclGroupStart");
  EXPECT_TRUE(enter("ncclSend", comm(1), 0).ok());

  gate_.end_group("ncclGroupEnd", [&] {
    EXPECT_NE(who_is_inside(nullptr).find("is inside ncclGroupEnd"), std::string::npos);
    EXPECT_TRUE(enter("ncclMemAlloc", nullptr, 0).ok()) << "a call that NCCL makes back";
    return 0;
  });

  EXPECT_EQ(who_is_inside(nullptr), "");
  EXPECT_FALSE(gate_.caller_is_inside());
}

// Whoever closes the gate waits for that group.
TEST_F(CallGateGroups, GroupThatIsInsideOnACommunicatorIsLetInOnItAgain) {
  gate_.group_started("ncclGroupStart");
  EXPECT_TRUE(enter("ncclSend", comm(1), 0).ok());
  member_paused(member_, "process 7 is paused", {kFirst, kSecond});

  EXPECT_TRUE(enter("ncclRecv", comm(1), 0).ok());
  EXPECT_FALSE(enter("ncclSend", comm(2), 1).ok());
  EXPECT_TRUE(enter("ncclRecv", comm(1), 0).ok()) << "whatever was refused in between";

  const CommunicatorIds first{kFirst}, second{kSecond};
  EXPECT_NE(who_is_inside(&first), "");
  EXPECT_EQ(who_is_inside(&second), "");
  end_group();
  EXPECT_EQ(who_is_inside(nullptr), "");
}

TEST_F(CallGateGroups, GroupThatIsInsideIsLetInThroughAClosedProcess) {
  gate_.group_started("ncclGroupStart");
  EXPECT_TRUE(enter("ncclSend", comm(1), 0).ok());
  gate_.close_process("this process is paused");

  EXPECT_TRUE(enter("ncclSend", comm(2), 0).ok()) << "the closer waits for the group's end";
  end_group();

  EXPECT_FALSE(enter("ncclSend", comm(2), 0).ok());
}

TEST_F(CallGateGroups, GroupThatIsEndedTwiceDoesNotCountForTheNext) {
  gate_.group_started("ncclGroupStart");
  EXPECT_TRUE(enter("ncclSend", comm(1), 0).ok());
  gate_.end_group("ncclGroupEnd", [&] {
    end_group();
    return 0;
  });

  EXPECT_FALSE(gate_.caller_is_inside());
  EXPECT_EQ(who_is_inside(nullptr), "");
  EXPECT_FALSE(gate_.caller_is_in_group());
}

TEST_F(CallGateGroups, GroupOfManyCallsOnOneCommunicatorConcernsNoOther) {
  gate_.group_started("ncclGroupStart");
  for (size_t i = 0; i < 2 * GateThread::kCommunicatorsInGroup; ++i)
    ASSERT_TRUE(enter("ncclSend", comm(1), 0).ok());

  const CommunicatorIds first{kFirst}, second{kSecond};
  EXPECT_NE(who_is_inside(&first), "");
  EXPECT_EQ(who_is_inside(&second), "");
  for (size_t i = 0; i < GateThread::kCommunicatorsInGroup; ++i)
    ASSERT_TRUE(enter("ncclSend", comm(i % 2 == 0 ? 3 : 4), 0).ok());
  EXPECT_NE(who_is_inside(&second), "") << "too many to be told apart";
  end_group();
}

TEST_F(CallGateGroups, GroupEntersWithItsFirstCallThatIsLetIn) {
  gate_.close_process("this process is paused");
  gate_.group_started("ncclGroupStart");
  EXPECT_EQ(who_is_inside(nullptr), "");
  EXPECT_FALSE(enter("ncclSend", comm(1), 0).ok());
  EXPECT_EQ(who_is_inside(nullptr), "") << "a call that was refused";
  gate_.open_process();

  EXPECT_TRUE(enter("ncclSend", comm(1), 0).ok());
  EXPECT_NE(who_is_inside(nullptr), "");
  end_group();
  EXPECT_EQ(who_is_inside(nullptr), "");
}

TEST_F(CallGateGroups, UngatedWorkIsRefusedWhileTheProcessIsClosed) {
  EXPECT_FALSE(gate_.has_ungated_work());
  gate_.close_process("this process is paused");

  const Status refused = gate_.admit_ungated("an NCCL function", 30000);

  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message, "an NCCL function: this process is paused");
  EXPECT_TRUE(gate_.has_ungated_work());
}

TEST_F(CallGateGroups, UngatedWorkWaitsForAMemberThatIsAway) {
  member_paused(member_, "process 7 is paused", {kFirst});
  EXPECT_FALSE(gate_.admit_ungated("an NCCL function", 1).ok());

  auto call = std::async(std::launch::async,
                         [&] { return gate_.admit_ungated("an NCCL function", 30000).ok(); });
  member_resumed(member_);

  EXPECT_TRUE(call.get());
}

TEST_F(CallGateGroups, UngatedWorkDoesNotWaitForAnotherJob) {
  const CommunicatorId others = communicator_from_bytes("others", 6);
  member_paused(member_, "process 7 is paused", {others});
  EXPECT_TRUE(gate_.admit_ungated("an NCCL function", 0).ok());

  member_paused(member_, "process 7 is paused", {others, kNoIdentity});
  EXPECT_FALSE(gate_.admit_ungated("an NCCL function", 1).ok()) << "it shares memory";
}

// A closed process lets a group go on that is inside, but not on a communicator whose member is
// away.
TEST_F(CallGateGroups, CallOfAGroupGoesOnWaitingForAMemberWhileItsProcessPauses) {
  gate_.group_started("ncclGroupStart");
  member_paused(member_, "process 7 is paused", {kFirst});
  auto pause = std::async(std::launch::async, [&] {
    gate_.close_process("this process is paused");
    member_resumed(member_);
  });

  EXPECT_TRUE(enter("ncclSend", comm(1), 30000).ok());
  pause.get();
  end_group();
}

TEST_F(CallGateGroups, ThreadThatEndsInsideAGroupIsOutside) {
  std::thread([&] { gate_.group_started("ncclGroupStart"); }).join();

  EXPECT_EQ(who_is_inside(nullptr), "");
}

// It passed no gate of its communicator, although the group is inside.
TEST_F(CallGateGroups, UngatedWorkInAGroupOfTheSameThreadIsNoticed) {
  gate_.group_started("ncclGroupStart");
  EXPECT_TRUE(gate_.admit_ungated("an NCCL function", 0).ok());
  end_group();

  EXPECT_TRUE(gate_.has_ungated_work());
}

TEST_F(CallGateGroups, AllocationIsUngatedWhenNoCallIsInsideAndNoCommunicatorIsKnown) {
  gate_.note_ungated_allocation();
  EXPECT_FALSE(gate_.has_ungated_work()) << "NCCL allocates for peers";
  for (int communicator : {1, 2})
    gate_.remove_communicator(comm(static_cast<uintptr_t>(communicator)));
  {
    const CallGate::Entry entry(gate_, "ncclCommInitRank", nullptr, 0);
    gate_.note_ungated_allocation();
    EXPECT_FALSE(gate_.has_ungated_work());
  }
  gate_.note_ungated_allocation();
  EXPECT_TRUE(gate_.has_ungated_work());
}

// NCCL launches a group's work on threads of its own.
TEST_F(CallGateGroups, WorkBesideACallThatIsInsideIsPartOfIt) {
  const CallGate::Entry entry(gate_, "ncclGroupEnd", comm(1), 0);

  auto launch = std::async(std::launch::async,
                           [&] { return gate_.admit_ungated("an NCCL function", 0).ok(); });

  EXPECT_TRUE(launch.get());
  EXPECT_FALSE(gate_.has_ungated_work());
}

TEST_F(CallGateGroups, WorkInTheBackgroundIsThatOfThreadsThatHaveMadeNoCall) {
  AsyncCommunicators background(gate_);
  background.note_in_progress();
  CaptureWatch captures(gate_, background);
  const auto launch = [&] { return captures.note(nullptr, kCaptureStatusNone, 0, 0).ok(); };

  const auto capture_twice = [&] {
    const bool first = launch();
    return gate_.communicators_of_caller().empty() && first && launch();
  };
  EXPECT_TRUE(std::async(std::launch::async, capture_twice).get());
  EXPECT_FALSE(gate_.has_ungated_work()) << "a thread of NCCL's";

  EXPECT_TRUE(enter("ncclAllReduce", comm(1), 0).ok());
  EXPECT_TRUE(launch());
  EXPECT_TRUE(gate_.has_ungated_work()) << "this thread is the application's";
}

/// The race that the fences are for: every call is either seen by the closer or stopped by the
/// closure.
class CallGateRace : public CallGateFixture {
 protected:
  void let_one_call_in() {
    bool let_in = false;
    {
      const CallGate::Entry entry(gate_, "ncclAllReduce", comm(1), 1);
      let_in = entry.is_inside();
      if (let_in) {
        ++working_;
        if (must_be_empty_) slipped_ = true;
        --working_;
      }
    }
    passed_ += let_in;
    // Who calls a closed gate again and again seems to be inside when the closer looks.
    while (!let_in && closed_ && !stop_) std::this_thread::yield();
  }
  /// True if the gate has been closed while calls came, and none was inside afterwards.
  template <typename Close, typename Open>
  bool close_once(const CommunicatorIds* ids, Close close, Open open) {
    const Deadline soon = Deadline::after_ms(30000);
    for (const int before = passed_; passed_ < before + 3 && !soon.passed();)
      std::this_thread::yield();
    EXPECT_FALSE(soon.passed()) << "calls do not pass the open gate";
    closed_ = true;
    close();
    const bool all_outside = gate_.wait_until_outside(ids, Deadline::after_ms(30000)).ok();
    EXPECT_TRUE(all_outside);
    if (soon.passed() || !all_outside) return false;
    must_be_empty_ = true;
    for (int look = 0; look < 300000; ++look)
      if (working_ != 0) slipped_ = true;
    must_be_empty_ = false;
    closed_ = false;
    open();
    return true;
  }

  std::atomic<bool> stop_{false}, closed_{false}, slipped_{false}, must_be_empty_{false};
  std::atomic<int> working_{0}, passed_{0};
};

TEST_F(CallGateRace, ClosingLetsNoCallSlipThrough) {
  std::thread caller([&] {
    while (!stop_) let_one_call_in();
  });
  for (int round = 0; round < 300; ++round)
    if (!close_once(
            nullptr, [&] { gate_.close_process("paused"); }, [&] { gate_.open_process(); }))
      break;  // the caller has to be joined
  stop_ = true;
  caller.join();
  EXPECT_FALSE(slipped_);
}

// Calls on the other communicator read the table meanwhile, and lower the word again: to the value
// at which calls look up their communicator, because a third one stays closed.
TEST_F(CallGateRace, PauseOfAPeerLetsNoCallOnItsCommunicatorSlipThrough) {
  const CommunicatorId closed = communicator_from_bytes("closed", 6);
  gate_.add_communicator(comm(3), closed);
  member_paused(random_instance_id(), "process 9 is paused", {closed});
  std::atomic<int> others{0};
  std::thread caller([&] {
    while (!stop_) let_one_call_in();
  });
  std::thread other([&] {
    while (!stop_) {
      EXPECT_TRUE(enter("ncclAllReduce", comm(2), 0).ok());
      ++others;
    }
  });
  const CommunicatorIds first{kFirst};
  const InstanceId stranger = random_instance_id();
  for (int round = 0; round < 300; ++round) {
    const bool goes_on = close_once(
        &first,
        [&] {
          member_paused(stranger, "process 8 is paused", {kUnknown});
          member_paused(member_, "process 7 is paused", first);
        },
        [&] {
          member_resumed(stranger);
          member_resumed(member_);
        });
    if (!goes_on) break;
  }
  stop_ = true;
  caller.join();
  other.join();
  EXPECT_FALSE(slipped_);
  EXPECT_GT(others, 0);
}

}  // namespace
}  // namespace amem
