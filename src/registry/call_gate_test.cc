// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "registry/call_gate.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <thread>

#include "registry/communicator_id.h"

namespace amem {
namespace {

const CommunicatorId kFirst = communicator_from_bytes("first", 5);
const CommunicatorId kSecond = communicator_from_bytes("second", 6);
const CommunicatorId kUnknown = communicator_from_bytes("unknown", 7);

class CallGateTest : public testing::Test {
 protected:
  CallGateTest() {
    gate_.add_communicator(comm(1), kFirst);
    gate_.add_communicator(comm(2), kSecond);
  }
  static const void* comm(uintptr_t n) { return reinterpret_cast<const void*>(n); }

  CallGate gate_;
  const InstanceId member_ = random_instance_id();
  const CallGate::Closure closure_{member_, "process 7 is paused", false};
};

TEST_F(CallGateTest, OpenGateLetsPass) {
  ASSERT_TRUE(gate_.enter("ncclAllReduce", comm(1), 0).ok());
  EXPECT_TRUE(gate_.caller_is_inside());
  gate_.leave();
  EXPECT_FALSE(gate_.caller_is_inside());
}

TEST_F(CallGateTest, ClosedProcessFailsAtOnceWithTheReason) {
  gate_.close_process("this process is paused");

  const Status status = gate_.enter("ncclAllReduce", comm(1), 60000);

  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::misuse);
  EXPECT_EQ(status.error().message, "ncclAllReduce: this process is paused");
  gate_.open_process();
  EXPECT_TRUE(gate_.enter("ncclAllReduce", comm(1), 0).ok());
  gate_.leave();
}

TEST_F(CallGateTest, MemberAwayStopsOnlyItsCommunicators) {
  gate_.member_away(closure_, {kFirst});

  EXPECT_TRUE(gate_.enter("ncclAllReduce", comm(2), 0).ok());
  gate_.leave();
  const Status status = gate_.enter("ncclAllReduce", comm(1), 1);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::timeout);
  EXPECT_NE(status.error().message.find("process 7 is paused"), std::string::npos);
}

TEST_F(CallGateTest, WaitingCallGoesOnWhenTheMemberIsBack) {
  gate_.member_away(closure_, {kFirst});
  auto call = std::async(std::launch::async, [&] {
    const bool passed = gate_.enter("ncclAllReduce", comm(1), 30000).ok();
    if (passed) gate_.leave();
    return passed;
  });

  gate_.member_back(member_);

  EXPECT_TRUE(call.get());
}

TEST_F(CallGateTest, EndedMemberFailsWaitersAtOnce) {
  gate_.member_away(closure_, {kFirst});
  auto call =
      std::async(std::launch::async, [&] { return gate_.enter("ncclAllReduce", comm(1), 30000); });

  gate_.member_away({member_, "process 7 has ended", true}, {kFirst});

  const Status status = call.get();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::peer);
}

TEST_F(CallGateTest, EndedMemberCountsBeforeThoseThatAreAway) {
  for (int i = 0; i < 8; ++i)
    gate_.member_away({random_instance_id(), "process 8 is paused", false}, {kFirst});
  gate_.member_away({member_, "process 7, has ended", true}, {kFirst});

  const Status status = gate_.enter("ncclAllReduce", comm(1), 1);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::peer);
}

TEST_F(CallGateTest, CommunicatorWithoutANameWaitsForWhoeverMayBeAMember) {
  gate_.add_communicator(comm(4), kNameless);
  gate_.member_away({random_instance_id(), "one of another job is paused", false}, {kUnknown});
  gate_.member_away(closure_, {kFirst, kNameless});
  for (const void* nameless : {comm(3), comm(4)}) {
    const Status status = gate_.enter("ncclAllReduce", nameless, 1);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().message,
              "ncclAllReduce waited 1 ms for a member of this communicator: process 7 is paused "
              "(if it is one); resume it, then call again");
  }
  EXPECT_TRUE(gate_.enter("ncclMemAlloc", nullptr, 0).ok()) << "a call without a communicator";
  gate_.leave();

  gate_.member_back(member_);
  for (const void* nameless : {comm(3), comm(4)}) {
    EXPECT_TRUE(gate_.enter("ncclAllReduce", nameless, 0).ok());
    gate_.leave();
  }
}

TEST_F(CallGateTest, CommunicatorWithoutANameIsRefusedWhileItMayHaveTheMemberThatEnded) {
  gate_.add_communicator(comm(4), kNameless);
  gate_.member_away(closure_, {kFirst, kNameless});
  gate_.member_ended(member_, "process 7, has ended");
  for (const void* nameless : {comm(3), comm(4)}) {
    const Status status = gate_.enter("ncclAllReduce", nameless, 1);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().message,
              "ncclAllReduce: a member of this communicator, process 7, has ended (if it is "
              "one); destroy the communicator");
  }

  gate_.remove_communicator(comm(1));
  EXPECT_FALSE(gate_.enter("ncclAllReduce", comm(4), 1).ok());

  gate_.remove_communicator(comm(4));
  EXPECT_TRUE(gate_.enter("ncclAllReduce", comm(3), 0).ok());
  gate_.leave();
}

// NCCL says where it is when its maker is no longer there to hear. Others may have seen it sooner.
TEST_F(CallGateTest, UnseenCommunicatorIsNamedToOthersAndSeenAtItsFirstCall) {
  gate_.see(comm(3));
  EXPECT_EQ(gate_.communicators().size(), 2u) << "all were seen being made";

  gate_.add_unseen(kUnknown);
  gate_.see(comm(3));

  EXPECT_TRUE(gate_.knows_any({kUnknown}));
  EXPECT_FALSE(gate_.knows_any({kNameless}));
  EXPECT_EQ(gate_.communicator_ids().size(), 3u);
  gate_.member_away(closure_, {kFirst, kNameless});
  gate_.remove_communicator(comm(1));
  gate_.member_ended(member_, "process 7, has ended");
  EXPECT_FALSE(gate_.enter("ncclAllReduce", comm(3), 1).ok());

  gate_.remove_communicator(comm(3));
  EXPECT_TRUE(gate_.enter("ncclAllReduce", comm(5), 0).ok()) << "made without the dead";
  gate_.leave();
}

// A connection that broke, say. What there was is lost, and what there is since is not known.
TEST_F(CallGateTest, MemberThatSeemedToHaveEndedIsRefusedOnLaterCommunicatorsToo) {
  gate_.member_lost({member_, "process 7, has ended", true}, {kFirst});

  gate_.member_away(closure_, {kFirst, kSecond});

  EXPECT_FALSE(gate_.enter("ncclAllReduce", comm(2), 1).ok());
}

TEST_F(CallGateTest, MemberThatHasEndedIsNeverBack) {
  gate_.member_away(closure_, {kFirst});
  gate_.member_ended(member_, "process 7, has ended");

  gate_.member_back(member_);

  EXPECT_FALSE(gate_.enter("ncclAllReduce", comm(1), 1).ok());
}

TEST_F(CallGateTest, LostMemberClosesItsCommunicatorsForEver) {
  gate_.member_lost({member_, "process 7, has ended", true, true}, {kFirst});

  const Status status = gate_.enter("ncclAllReduce", comm(1), 30000);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message,
            "ncclAllReduce: a member of this communicator, process 7, has ended (if it is one); "
            "destroy the communicator");
  EXPECT_TRUE(gate_.enter("ncclAllReduce", comm(2), 0).ok());
  gate_.leave();
}

TEST_F(CallGateTest, CloserWaitsForCallsOnCommunicatorsWithoutAName) {
  std::promise<void> entered, may_leave;
  auto call = std::async(std::launch::async, [&] {
    ASSERT_TRUE(gate_.enter("ncclAllReduce", comm(3), 0).ok());
    entered.set_value();
    may_leave.get_future().wait();
    gate_.leave();
  });
  entered.get_future().wait();
  const std::vector<CommunicatorId> named{kFirst}, all{kFirst, kNameless};

  EXPECT_TRUE(gate_.wait_until_outside(&named, Deadline::after_ms(0)).ok());
  const Status status = gate_.wait_until_outside(&all, Deadline::after_ms(1));
  may_leave.set_value();
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("is inside ncclAllReduce"), std::string::npos);
}

TEST_F(CallGateTest, CloserWaitsForTheCallsThatAreInside) {
  std::promise<void> entered, may_leave;
  auto call = std::async(std::launch::async, [&] {
    ASSERT_TRUE(gate_.enter("ncclBroadcast", comm(1), 0).ok());
    entered.set_value();
    may_leave.get_future().wait();
    gate_.leave();
  });
  entered.get_future().wait();
  const std::vector<CommunicatorId> first{kFirst}, second{kSecond};

  EXPECT_TRUE(gate_.wait_until_outside(&second, Deadline::after_ms(0)).ok());
  const Status status = gate_.wait_until_outside(&first, Deadline::after_ms(1));
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("is inside ncclBroadcast"), std::string::npos);

  gate_.close_process("paused");
  may_leave.set_value();
  EXPECT_TRUE(gate_.wait_until_outside(nullptr, Deadline::after_ms(30000)).ok());
}

TEST_F(CallGateTest, OpenGroupIsInsideUntilItsOutermostEnd) {
  std::promise<void> opened, may_end;
  auto call = std::async(std::launch::async, [&] {
    EXPECT_TRUE(gate_.enter("ncclGroupStart", nullptr, 0).ok());
    gate_.group_started();
    gate_.leave();
    EXPECT_TRUE(gate_.enter("ncclSend", comm(1), 0).ok());
    gate_.leave();
    opened.set_value();
    may_end.get_future().wait();
    EXPECT_TRUE(gate_.enter("ncclGroupEnd", nullptr, 0).ok());
    gate_.leave();
    gate_.group_ended();
  });
  opened.get_future().wait();
  const std::vector<CommunicatorId> first{kFirst};
  EXPECT_FALSE(gate_.wait_until_outside(&first, Deadline::after_ms(1)).ok());

  gate_.close_process("paused");
  may_end.set_value();
  EXPECT_TRUE(gate_.wait_until_outside(&first, Deadline::after_ms(30000)).ok());
}

TEST_F(CallGateTest, NestedCallsPassAndCountOnce) {
  ASSERT_TRUE(gate_.enter("ncclCommInitRank", nullptr, 0).ok());
  gate_.close_process("paused");

  EXPECT_TRUE(gate_.enter("ncclMemAlloc", nullptr, 0).ok());
  gate_.leave();
  EXPECT_TRUE(gate_.caller_is_inside());
  gate_.leave();
  EXPECT_FALSE(gate_.caller_is_inside());
}

TEST_F(CallGateTest, CloserMayNotBeInsideItself) {
  EXPECT_TRUE(gate_.enter("ncclGroupStart", nullptr, 0).ok());
  const Status status = gate_.wait_until_outside(nullptr, Deadline::after_ms(0));
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::misuse);
  gate_.leave();
}

TEST_F(CallGateTest, CallThatNothingStandsInTheWayOfPassesQuickly) {
  EXPECT_EQ(gate_.enter_quickly("ncclAllReduce", comm(1)), nullptr) << "the thread is new here";
  ASSERT_TRUE(gate_.enter("ncclAllReduce", comm(1), 0).ok());
  EXPECT_EQ(gate_.enter_quickly("ncclAllReduce", comm(1)), nullptr) << "it is inside";
  gate_.leave();

  GateThread* const thread = gate_.enter_quickly("ncclAllReduce", comm(1));
  ASSERT_NE(thread, nullptr);
  EXPECT_TRUE(gate_.caller_is_inside());
  EXPECT_NE(gate_.who_is_inside(nullptr), "");
  gate_.leave_quickly(*thread);
  EXPECT_FALSE(gate_.caller_is_inside());
  EXPECT_EQ(gate_.who_is_inside(nullptr), "");
}

TEST_F(CallGateTest, ClosedGateIsNotPassedQuickly) {
  ASSERT_TRUE(gate_.enter("ncclAllReduce", comm(1), 0).ok());
  gate_.leave();
  gate_.member_away(closure_, {kFirst});

  EXPECT_EQ(gate_.enter_quickly("ncclAllReduce", comm(1)), nullptr);

  EXPECT_FALSE(gate_.caller_is_inside());
  EXPECT_EQ(gate_.who_is_inside(nullptr), "");
}

TEST_F(CallGateTest, NoCallPassesQuicklyWhileThereIsAReasonForTheLongWay) {
  ASSERT_TRUE(gate_.enter("ncclAllReduce", comm(1), 0).ok());
  gate_.leave();
  using enum CallGate::LongWay;
  for (const auto reason : {full_fences, unseen_communicators, unseen_captures, forked_child}) {
    gate_.take_long_way(reason);
    EXPECT_EQ(gate_.enter_quickly("ncclAllReduce", comm(1)), nullptr);
    gate_.end_long_way(reason);
    GateThread* const thread = gate_.enter_quickly("ncclAllReduce", comm(1));
    ASSERT_NE(thread, nullptr);
    gate_.leave_quickly(*thread);
  }
}

// Whoever closes the gate waits for that group.
TEST_F(CallGateTest, GroupThatIsInsideOnACommunicatorIsLetInOnItAgain) {
  ASSERT_TRUE(gate_.enter("ncclGroupStart", nullptr, 0).ok());
  gate_.group_started();
  gate_.leave();
  GateThread* thread = gate_.enter_quickly("ncclSend", comm(1));
  ASSERT_NE(thread, nullptr);
  gate_.leave_quickly(*thread);
  gate_.member_away(closure_, {kFirst, kSecond});

  thread = gate_.enter_quickly("ncclRecv", comm(1));
  ASSERT_NE(thread, nullptr);
  gate_.leave_quickly(*thread);
  EXPECT_TRUE(gate_.enter("ncclRecv", comm(1), 0).ok());
  gate_.leave();
  EXPECT_EQ(gate_.enter_quickly("ncclSend", comm(2)), nullptr);
  EXPECT_FALSE(gate_.enter("ncclSend", comm(2), 1).ok());

  const std::vector<CommunicatorId> first{kFirst}, second{kSecond};
  EXPECT_NE(gate_.who_is_inside(&first), "");
  EXPECT_EQ(gate_.who_is_inside(&second), "");
  gate_.group_ended();
  EXPECT_EQ(gate_.who_is_inside(nullptr), "");
}

TEST_F(CallGateTest, GroupOfManyCallsOnOneCommunicatorConcernsNoOther) {
  ASSERT_TRUE(gate_.enter("ncclGroupStart", nullptr, 0).ok());
  gate_.group_started();
  gate_.leave();
  for (size_t i = 0; i < 2 * GateThread::kCommunicatorsInGroup; ++i) {
    ASSERT_TRUE(gate_.enter("ncclSend", comm(1), 0).ok());
    gate_.leave();
  }

  const std::vector<CommunicatorId> first{kFirst}, second{kSecond};
  EXPECT_NE(gate_.who_is_inside(&first), "");
  EXPECT_EQ(gate_.who_is_inside(&second), "");
  for (size_t i = 0; i < GateThread::kCommunicatorsInGroup; ++i) {
    ASSERT_TRUE(gate_.enter("ncclSend", comm(i % 2 == 0 ? 3 : 4), 0).ok());
    gate_.leave();
  }
  EXPECT_NE(gate_.who_is_inside(&second), "") << "too many to be told apart";
  gate_.group_ended();
}

TEST_F(CallGateTest, GroupOpenedAtAClosedGateCountsFromTheFirstCallThatIsLetIn) {
  gate_.close_process("this process is paused");
  gate_.group_started();
  EXPECT_EQ(gate_.counted_groups(), 0);
  EXPECT_FALSE(gate_.enter("ncclSend", comm(1), 0).ok());
  EXPECT_FALSE(gate_.caller_is_inside());
  gate_.open_process();

  EXPECT_EQ(gate_.enter_quickly("ncclSend", comm(1)), nullptr);
  ASSERT_TRUE(gate_.enter("ncclSend", comm(1), 0).ok());
  gate_.leave();
  EXPECT_EQ(gate_.counted_groups(), 1);
  EXPECT_TRUE(gate_.caller_is_inside());
  gate_.group_ended();
  EXPECT_FALSE(gate_.caller_is_inside());
}

// The race that the fences are for: every call is either counted by the closer or stopped by the
// closure.
class ClosingGate : public CallGateTest, public testing::WithParamInterface<bool> {
 protected:
  bool pass(const std::function<void()>& call) {
    if (GetParam()) {
      if (GateThread* const thread = gate_.enter_quickly("ncclAllReduce", comm(1))) {
        call();
        gate_.leave_quickly(*thread);
        return true;
      }
    }
    if (!gate_.enter("ncclAllReduce", comm(1), 1).ok()) return false;
    call();
    gate_.leave();
    return true;
  }
};
INSTANTIATE_TEST_SUITE_P(IsPassed, ClosingGate, testing::Bool(),
                         [](const auto& run) { return run.param ? "Quickly" : "Slowly"; });

TEST_P(ClosingGate, LetsNoCallSlipThrough) {
  std::atomic<bool> stop{false};
  std::atomic<int> working{0}, passed{0};
  std::atomic<bool> slipped{false};
  std::atomic<bool> must_be_empty{false};
  std::thread caller([&] {
    while (!stop) {
      const bool let_in = pass([&] {
        ++working;
        if (must_be_empty) slipped = true;
        --working;
      });
      passed += let_in;
      // Who calls a closed gate again and again seems to be inside when the closer looks.
      if (!let_in) std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  });
  for (int round = 0; round < 2000; ++round) {
    for (const int before = passed; passed < before + 3;) std::this_thread::yield();
    gate_.close_process("paused");
    ASSERT_TRUE(gate_.wait_until_outside(nullptr, Deadline::after_ms(30000)).ok());
    must_be_empty = true;
    for (int look = 0; look < 1000; ++look)
      if (working != 0) slipped = true;
    must_be_empty = false;
    gate_.open_process();
  }
  stop = true;
  caller.join();
  EXPECT_FALSE(slipped);
}

TEST(CommunicatorIdentity, IsEqualForEqualHistoryAndElseNot) {
  EXPECT_EQ(derived_communicator(kFirst, 1, 0), derived_communicator(kFirst, 1, 0));
  EXPECT_NE(derived_communicator(kFirst, 1, 0), derived_communicator(kFirst, 2, 0));
  EXPECT_NE(derived_communicator(kFirst, 1, 0), derived_communicator(kFirst, 1, 1));
  EXPECT_NE(derived_communicator(kFirst, 1, 0), derived_communicator(kSecond, 1, 0));
}

}  // namespace
}  // namespace amem
