// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/nccl/gate/call_gate.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <future>
#include <thread>

#include "clients/nccl/gate/communicator_id.h"
#include "clients/nccl/gate/testdata/call_gate_fixture.h"

namespace amem {
namespace {

using CallGateTest = CallGateFixture;

TEST_F(CallGateTest, OpenGateLetsPass) {
  {
    const CallGate::Entry entry(gate_, "ncclAllReduce", comm(1), 0);
    EXPECT_TRUE(entry.is_inside());
    EXPECT_TRUE(gate_.caller_is_inside());
    EXPECT_NE(who_is_inside(nullptr), "");
  }
  EXPECT_EQ(who_is_inside(nullptr), "");
  EXPECT_FALSE(gate_.caller_is_inside());
}

TEST_F(CallGateTest, ClosedProcessFailsAtOnceWithTheReason) {
  gate_.close_process("this process is paused");

  const Status status = enter("ncclAllReduce", comm(1), 60000);

  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::misuse);
  EXPECT_EQ(status.error().message, "ncclAllReduce: this process is paused");
  gate_.open_process();
  EXPECT_TRUE(enter("ncclAllReduce", comm(1), 0).ok());
}

// NCCL's calls are no cancellation points, and the gate would be locked for ever.
TEST_F(CallGateTest, CallThatIsCancelledAtTheGateGoesOnWhenItOpens) {
  std::promise<void> waits;
  CallGate gate(peers_, {}, [&](const InstanceId&) { waits.set_value(); });
  gate.add_communicator(comm(1), kFirst);
  member_paused(member_, "process 7 is paused", {kFirst});
  struct Call {
    CallGate& gate;
    bool entered = false;
  } call{gate};
  pthread_t thread{};
  const auto run = [](void* argument) -> void* {
    Call& mine = *static_cast<Call*>(argument);
    pthread_cancel(pthread_self());
    {
      const CallGate::Entry entry(mine.gate, "ncclAllReduce", comm(1), 30000);
      mine.entered = entry.is_inside();
    }
    pthread_testcancel();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, nullptr, run, &call), 0);
  waits.get_future().wait();
  member_resumed(member_);

  void* result = nullptr;
  ASSERT_EQ(pthread_join(thread, &result), 0);
  EXPECT_EQ(result, PTHREAD_CANCELED);
  EXPECT_TRUE(call.entered);
  EXPECT_TRUE(gate.wait_until_outside(nullptr, Deadline::after_ms(1000)).ok());
}

/// A call may come while another thread closes the gate and waits for the calls that are inside.
TEST_F(CallGateTest, CallResumesAProcessThatIsPaused) {
  CallGate* gate = nullptr;
  int resumed = 0;
  CallGate with_resume(peers_, [&]() -> Status {
    AMEM_TRY(gate->wait_until_outside(nullptr, Deadline::after_ms(30000)));
    if (++resumed == 1) return make_error(ErrorKind::driver, 2, "no room");
    gate->open_process();
    return ok_status();
  });
  gate = &with_resume;
  gate->resume_on_call(true);
  gate->close_process("this process is paused");
  const auto call = [&] {
    const CallGate::Entry entry(*gate, "ncclAllReduce", comm(1), 1);
    return entry.is_inside() ? ok_status() : Status(entry.refusal());
  };

  const Status refused = call();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::misuse);
  EXPECT_EQ(refused.error().message,
            "ncclAllReduce: this process is paused and cannot be resumed: no room");
  EXPECT_TRUE(call().ok());
  EXPECT_TRUE(call().ok());
  EXPECT_EQ(resumed, 2);

  gate->resume_on_call(false);
  gate->close_process("this process is paused");
  EXPECT_FALSE(call().ok());
  EXPECT_EQ(resumed, 2);
}

TEST_F(CallGateTest, PausedMemberIsToldThatACallWaits) {
  std::vector<InstanceId> told;
  CallGate gate(peers_, {}, [&](const InstanceId& member) { told.push_back(member); });
  gate.add_communicator(comm(1), kFirst);
  gate.add_communicator(comm(2), kSecond);
  const auto call = [&](int which, long timeout_ms) {
    return CallGate::Entry(gate, "ncclAllReduce", comm(which), timeout_ms).is_inside();
  };
  member_paused(member_, "process 7 is paused", {kFirst});

  EXPECT_TRUE(call(2, 1));
  EXPECT_FALSE(call(1, 0)) << "does not wait";
  EXPECT_TRUE(told.empty());
  for (int repeated = 0; repeated < 3; ++repeated) EXPECT_FALSE(call(1, 1));
  EXPECT_EQ(told, std::vector<InstanceId>(3, member_)) << "by each call anew";

  member_resumed(member_);
  EXPECT_TRUE(call(1, 1));
  member_paused(member_, "process 7 is paused", {kFirst});
  member_ended(member_, "process 7 has ended");
  EXPECT_FALSE(call(1, 1));
  EXPECT_EQ(told.size(), 3u);
}

TEST_F(CallGateTest, ResumesForAPeerOnlyWhatIsPausedAndResumesForCalls) {
  int resumed = 0;
  CallGate gate(peers_, [&]() -> Status {
    ++resumed;
    return make_error(ErrorKind::driver, 2, "no room");
  });
  gate.resume_for_peer();
  gate.resume_on_call(true);
  gate.resume_for_peer();
  EXPECT_EQ(resumed, 0) << "it is not paused";
  gate.close_process("this process is paused");
  gate.resume_for_peer();
  EXPECT_EQ(resumed, 1);
  gate.resume_on_call(false);
  gate.resume_for_peer();
  EXPECT_EQ(resumed, 1);
}

/// A pause that the call has waited for is rolled back.
TEST_F(CallGateTest, CallGoesOnIfTheProcessIsActiveAlthoughItCouldNotResumeIt) {
  CallGate* gate = nullptr;
  CallGate with_resume(peers_, [&]() -> Status {
    gate->open_process();
    return make_error(ErrorKind::timeout, 0, "another thread has been pausing this process");
  });
  gate = &with_resume;
  gate->resume_on_call(true);
  gate->close_process("this process is paused");
  const CallGate::Entry entry(*gate, "ncclAllReduce", comm(1), 1);
  EXPECT_TRUE(entry.is_inside());
}

/// A caller that may not wait may be inside other gates, for which a pause waits.
TEST_F(CallGateTest, CallThatMayNotWaitResumesNothing) {
  CallGate with_resume(peers_, []() -> Status {
    ADD_FAILURE() << "it resumes";
    return ok_status();
  });
  with_resume.resume_on_call(true);
  with_resume.close_process("this process is paused");
  const CallGate::Entry entry(with_resume, "cudaGraphLaunch", comm(1), 0);
  ASSERT_FALSE(entry.is_inside());
  EXPECT_EQ(entry.refusal().kind, ErrorKind::timeout);
}

TEST_F(CallGateTest, MemberAwayStopsOnlyItsCommunicators) {
  member_paused(member_, "process 7 is paused", {kFirst});

  EXPECT_TRUE(enter("ncclAllReduce", comm(2), 0).ok());
  const Status status = enter("ncclAllReduce", comm(1), 1);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::timeout);
  EXPECT_NE(status.error().message.find("process 7 is paused"), std::string::npos);
}

/// Calls of a process that shares nothing with a paused one take as long as without it, and so do
/// calls on communicators that the paused one does not share.
class CallGateFastPath : public CallGateFixture {
 protected:
  /// A call enters while another thread holds the mutex.
  bool enters_without_lock(const void* communicator) {
    auto call = std::async(std::launch::async, [] { return true; });
    bool is_done = false;
    {
      MutexLock lock(peers_.mutex);
      call = std::async(std::launch::async,
                        [=, this] { return enter("ncclAllReduce", communicator, 0).ok(); });
      is_done = call.wait_for(std::chrono::seconds(5)) == std::future_status::ready;
    }
    return call.get() && is_done;
  }
};

TEST_F(CallGateFastPath, OfAProcessThatSharesNothing) {
  member_paused(member_, "process 7 is paused", {kUnknown});
  EXPECT_TRUE(enter("ncclAllReduce", comm(1), 0).ok()) << "the first call reads the table";

  for (const uintptr_t communicator : {1, 2, 3})
    EXPECT_TRUE(enters_without_lock(comm(communicator))) << communicator;
}

TEST_F(CallGateFastPath, OfCommunicatorsThatThePausedMemberDoesNotShare) {
  gate_.add_communicator(comm(4), kNoIdentity);
  member_paused(member_, "process 7 is paused", {kFirst, kNoIdentity});
  gate_.read_peers();

  EXPECT_TRUE(enters_without_lock(comm(2)));
  EXPECT_TRUE(enters_without_lock(nullptr)) << "ncclMemAlloc, for example";
  for (const uintptr_t closed : {1, 3, 4})
    EXPECT_FALSE(enter("ncclAllReduce", comm(closed), 1).ok()) << closed;
  member_resumed(member_);
  gate_.read_peers();
  for (const uintptr_t communicator : {1, 2, 3, 4})
    EXPECT_TRUE(enters_without_lock(comm(communicator))) << communicator;
}

TEST_F(CallGateFastPath, OfManyCommunicators) {
  constexpr uintptr_t kFirstOfMany = 0x7f0000000010, kStep = 0x20000;
  const auto many = [&](uintptr_t n) { return comm(kFirstOfMany + n * kStep); };
  for (uintptr_t n = 0; n < 100; ++n)
    gate_.add_communicator(many(n), n % 2 == 0 ? kSecond : kFirst);
  member_paused(member_, "process 7 is paused", {kFirst});
  gate_.read_peers();
  for (uintptr_t n = 0; n < 100; ++n)
    EXPECT_EQ(enter("ncclAllReduce", many(n), 0).ok(), n % 2 == 0) << n;
  for (uintptr_t n = 0; n < 100; n += 10) EXPECT_TRUE(enters_without_lock(many(n))) << n;
}

TEST_F(CallGateFastPath, EndsWhenASecondMemberIsPaused) {
  member_paused(member_, "process 7 is paused", {kSecond});
  gate_.read_peers();
  EXPECT_TRUE(enters_without_lock(comm(1)));

  member_paused(random_instance_id(), "process 8 is paused", {kFirst});
  EXPECT_FALSE(enter("ncclAllReduce", comm(1), 1).ok()) << "the first call after the pause";
  EXPECT_FALSE(enter("ncclAllReduce", comm(1), 1).ok()) << "and the ones after it";
}

// The scope of the pause has the identity; the communicator is created, or named, later.
TEST_F(CallGateFastPath, IsNotThatOfACommunicatorThatIsKnownLater) {
  member_paused(member_, "process 7 is paused", {kUnknown});
  EXPECT_TRUE(enter("ncclAllReduce", comm(5), 0).ok());
  EXPECT_TRUE(enter("ncclAllReduce", comm(6), 0).ok());

  gate_.add_communicator(comm(5), kUnknown);
  EXPECT_FALSE(enter("ncclAllReduce", comm(5), 1).ok());
  EXPECT_FALSE(enter("ncclAllReduce", comm(6), 1).ok())
      << "a communicator is shared, perhaps it too";
  gate_.remove_communicator(comm(5));
  member_resumed(member_);

  gate_.add_pending(kUnknown);
  member_paused(member_, "process 7 is paused", {kUnknown});
  EXPECT_FALSE(enter("ncclAllReduce", comm(5), 1).ok());
  gate_.remove_pending(kUnknown, comm(5));
  EXPECT_FALSE(enter("ncclAllReduce", comm(5), 1).ok());
  EXPECT_TRUE(enter("ncclAllReduce", comm(1), 0).ok());
}

TEST_F(CallGateTest, WaitingCallGoesOnWhenTheMemberIsBack) {
  member_paused(member_, "process 7 is paused", {kFirst});
  auto call =
      std::async(std::launch::async, [&] { return enter("ncclAllReduce", comm(1), 30000).ok(); });

  member_resumed(member_);

  EXPECT_TRUE(call.get());
}

TEST_F(CallGateTest, EndedMemberFailsWaitersAtOnce) {
  member_paused(member_, "process 7 is paused", {kFirst});
  auto call =
      std::async(std::launch::async, [&] { return enter("ncclAllReduce", comm(1), 30000); });

  member_lost(member_, "process 7 has ended", {kFirst});

  const Status status = call.get();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::peer);
}

TEST_F(CallGateTest, EndedMemberCountsBeforeThoseThatAreAway) {
  for (int i = 0; i < 8; ++i) member_paused(random_instance_id(), "process 8 is paused", {kFirst});
  member_lost(member_, "process 7, has ended", {kFirst});

  const Status status = enter("ncclAllReduce", comm(1), 1);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::peer);
}

TEST_F(CallGateTest, CommunicatorWithoutANameWaitsForWhoeverMayBeAMember) {
  gate_.add_communicator(comm(4), kNoIdentity);
  member_paused(random_instance_id(), "one of another job is paused", {kUnknown});
  member_paused(member_, "process 7 is paused", {kFirst, kNoIdentity});
  for (const void* unidentified : {comm(3), comm(4)}) {
    const Status status = enter("ncclAllReduce", unidentified, 1);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().message,
              "ncclAllReduce waited 1 ms for a member of this communicator: process 7 is paused "
              "(it may not be a member); resume it, then call again");
  }
  EXPECT_TRUE(enter("ncclMemAlloc", nullptr, 0).ok()) << "a call without a communicator";

  member_resumed(member_);
  for (const void* unidentified : {comm(3), comm(4)}) {
    EXPECT_TRUE(enter("ncclAllReduce", unidentified, 0).ok());
  }
}

TEST_F(CallGateTest, CommunicatorWithoutANameIsRefusedWhileItMayHaveTheMemberThatEnded) {
  gate_.add_communicator(comm(4), kNoIdentity);
  member_paused(member_, "process 7 is paused", {kFirst, kNoIdentity});
  member_ended(member_, "process 7, has ended");
  for (const void* unidentified : {comm(3), comm(4)}) {
    const Status status = enter("ncclAllReduce", unidentified, 1);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().message,
              "ncclAllReduce: a member of this communicator, process 7, has ended (it may not be a "
              "member); abort the communicator");
  }

  gate_.remove_communicator(comm(1));
  EXPECT_FALSE(enter("ncclAllReduce", comm(4), 1).ok());

  gate_.remove_communicator(comm(4));
  EXPECT_TRUE(enter("ncclAllReduce", comm(3), 0).ok());
}

TEST_F(CallGateTest, CallThatIgnoresEndedMembersWaitsForPausedOnes) {
  const auto shrink_enters = [&] {
    return CallGate::Entry(gate_, "ncclCommShrink", comm(1), 1, true).is_inside();
  };
  member_paused(member_, "process 7 is paused", {kFirst});
  EXPECT_FALSE(shrink_enters());

  member_ended(member_, "process 7, has ended");
  EXPECT_TRUE(shrink_enters());
  EXPECT_FALSE(enter("ncclAllReduce", comm(1), 1).ok());

  member_paused(random_instance_id(), "process 8 is paused", {kFirst});
  EXPECT_FALSE(shrink_enters());
}

// NCCL says where it is when its maker is no longer there to hear. Others may have seen it sooner.
TEST_F(CallGateTest, UnseenCommunicatorIsNamedToOthersAndSeenAtItsFirstCall) {
  EXPECT_TRUE(enter("ncclAllReduce", comm(3), 0).ok());
  EXPECT_EQ(gate_.communicator_count(), 2u) << "all were seen being made";

  gate_.add_pending(kUnknown);
  EXPECT_TRUE(enter("ncclAllReduce", comm(3), 0).ok());

  EXPECT_EQ(gate_.communicator_count(), 3u);
  EXPECT_TRUE(contains(gate_.communicator_ids(), kUnknown));
  EXPECT_FALSE(contains(gate_.communicator_ids(), kNoIdentity));
  EXPECT_EQ(gate_.communicator_ids().size(), 3u);
  member_paused(member_, "process 7 is paused", {kFirst, kNoIdentity});
  gate_.remove_communicator(comm(1));
  member_ended(member_, "process 7, has ended");
  EXPECT_FALSE(enter("ncclAllReduce", comm(3), 1).ok());

  gate_.remove_communicator(comm(3));
  EXPECT_TRUE(enter("ncclAllReduce", comm(5), 0).ok()) << "made without the dead";
}

// A connection that broke, say. What there was is lost, and what there is since is not known.
TEST_F(CallGateTest, MemberThatSeemedToHaveEndedIsRefusedOnLaterCommunicatorsToo) {
  member_lost(member_, "process 7, has ended", {kFirst});

  member_paused(member_, "process 7 is paused", {kFirst, kSecond});

  EXPECT_FALSE(enter("ncclAllReduce", comm(2), 1).ok());
}

TEST_F(CallGateTest, MemberThatHasEndedIsNeverBack) {
  member_paused(member_, "process 7 is paused", {kFirst});
  member_ended(member_, "process 7, has ended");

  member_resumed(member_);

  EXPECT_FALSE(enter("ncclAllReduce", comm(1), 1).ok());
}

TEST_F(CallGateTest, LostMemberClosesItsCommunicatorsForEver) {
  // It has not said what it shares; all ranks of the second communicator are in this process.
  peers_.members.add(kSecond, 1);
  peers_.lose(member_, kNcclTag, "process 7, has ended", gate_.communicator_ids());

  const Status status = enter("ncclAllReduce", comm(1), 30000);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message,
            "ncclAllReduce: a member of this communicator, process 7, has ended (it may not be a "
            "member); "
            "abort the communicator");
  EXPECT_TRUE(enter("ncclAllReduce", comm(2), 0).ok());
}

TEST_F(CallGateTest, CloserWaitsForCallsOnCommunicatorsWithoutAName) {
  std::promise<void> entered, may_leave;
  auto call = std::async(std::launch::async, [&] {
    const CallGate::Entry entry(gate_, "ncclAllReduce", comm(3), 0);
    ASSERT_TRUE(entry.is_inside());
    entered.set_value();
    may_leave.get_future().wait();
  });
  entered.get_future().wait();
  const CommunicatorIds named{kFirst}, all{kFirst, kNoIdentity};

  EXPECT_TRUE(gate_.wait_until_outside(&named, Deadline::after_ms(0)).ok());
  const Status status = gate_.wait_until_outside(&all, Deadline::after_ms(1));
  may_leave.set_value();
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("is inside ncclAllReduce"), std::string::npos);
}

TEST_F(CallGateTest, CloserWaitsForTheCallsThatAreInside) {
  std::promise<void> entered, may_leave;
  auto call = std::async(std::launch::async, [&] {
    const CallGate::Entry entry(gate_, "ncclBroadcast", comm(1), 0);
    ASSERT_TRUE(entry.is_inside());
    entered.set_value();
    may_leave.get_future().wait();
  });
  entered.get_future().wait();
  const CommunicatorIds first{kFirst}, second{kSecond};

  EXPECT_TRUE(gate_.wait_until_outside(&second, Deadline::after_ms(0)).ok());
  const Status status = gate_.wait_until_outside(&first, Deadline::after_ms(1));
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("is inside ncclBroadcast"), std::string::npos);

  gate_.close_process("paused");
  may_leave.set_value();
  EXPECT_TRUE(gate_.wait_until_outside(nullptr, Deadline::after_ms(30000)).ok());
}

TEST_F(CallGateTest, NestedCallsPassAndCountOnce) {
  {
    const CallGate::Entry outer(gate_, "ncclCommInitRank", nullptr, 0);
    gate_.close_process("paused");
    EXPECT_TRUE(enter("ncclMemAlloc", nullptr, 0).ok());
    EXPECT_TRUE(gate_.caller_is_inside());
  }
  EXPECT_FALSE(gate_.caller_is_inside());
}

TEST_F(CallGateTest, CloserMayNotBeInsideItself) {
  const CallGate::Entry entry(gate_, "ncclAllReduce", comm(1), 0);
  const Status status = gate_.wait_until_outside(nullptr, Deadline::after_ms(0));
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::misuse);
}

}  // namespace
}  // namespace amem
