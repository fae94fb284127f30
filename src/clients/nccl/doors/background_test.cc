// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// What NCCL goes on with after a call has returned, through the doors of an NCCL that the test
// plays.
#include <gtest/gtest.h>

#include <map>

#include "clients/nccl/doors/nccl_copies.h"
#include "tests/support/nccl_objects.h"
#include "tests/support/no_exchange.h"

namespace amem {
namespace {

constexpr int kCopy = kMaxCopies - 1;

struct {
  std::map<Comm, int> states;  ///< what ncclCommGetAsyncError says; ncclSuccess of others
  Comm made;                   ///< what a split fills in before it returns
  int split_result;
  int group_result;  ///< of ncclGroupEnd
} g_nccl;

int split(Comm, int color, int, Comm* child, void*) {
  if (color >= 0) *child = g_nccl.made;
  return g_nccl.split_result;
}
int destroy(Comm) { return ncclSuccess; }
int all_reduce(const void*, void*, size_t, int, int, Comm, Stream) { return ncclSuccess; }
int start_group() { return ncclSuccess; }
int end_group() { return g_nccl.group_result; }
int get_async_error(Comm communicator, int* state) {
  *state = g_nccl.states[communicator];
  return ncclSuccess;
}

class WorkInTheBackground : public testing::Test {
 protected:
  WorkInTheBackground() {
    g_nccl = {};
    g_nccl.group_result = ncclInProgress;
    set(NcclFunction::ncclCommSplit, &split);
    set(NcclFunction::ncclCommDestroy, &destroy);
    set(NcclFunction::ncclAllReduce, &all_reduce);
    set(NcclFunction::ncclGroupStart, &start_group);
    set(NcclFunction::ncclGroupEnd, &end_group);
    set(NcclFunction::ncclCommGetAsyncError, &get_async_error);
    objects_.activate();
  }
  ~WorkInTheBackground() override { g_nccl_copies[kCopy].real = {}; }
  template <typename Function>
  static void set(NcclFunction function, Function* real) {
    g_nccl_copies[kCopy].real[static_cast<size_t>(function)] = reinterpret_cast<void*>(real);
  }
  template <typename... Arguments>
  static int call(NcclFunction function, Arguments... arguments) {
    using Function = int(Arguments...);
    return reinterpret_cast<Function*>(const_cast<void*>(door_of(kCopy, function)))(arguments...);
  }

  void split_parent() {
    Comm child = nullptr;
    EXPECT_EQ(call(NcclFunction::ncclCommSplit, kParent, 0, 0, &child, static_cast<void*>(nullptr)),
              ncclSuccess);
  }
  void all_reduce_in_a_group(Comm comm) {
    call(NcclFunction::ncclGroupStart);
    call(NcclFunction::ncclAllReduce, static_cast<const void*>(nullptr),
         static_cast<void*>(nullptr), size_t{1}, 7, 0, comm, Stream{});
    EXPECT_EQ(call(NcclFunction::ncclGroupEnd), ncclInProgress);
  }
  /// Would a pause go on now?
  bool is_settled() {
    return client_.async_communicators.wait_until_settled(nullptr, Deadline::after_ms(0)).ok();
  }
  void expect_waits_for(Comm comm) {
    g_nccl.states[comm] = ncclInProgress;
    EXPECT_FALSE(is_settled());
    g_nccl.states[comm] = ncclSuccess;
    EXPECT_TRUE(is_settled());
  }

  static inline Comm const kParent = reinterpret_cast<Comm>(0x1000);
  static inline Comm const kChild = reinterpret_cast<Comm>(0x2000);
  Driver driver_{};
  Registry registry_;
  PeerTable peers_;
  NoExchange exchange_;
  NcclObjects objects_{driver_, registry_, exchange_, peers_};
  NcclClient& client_ = objects_.client;
};

TEST_F(WorkInTheBackground, OfAParentWhoseChildIsNotThereYetIsWaitedFor) {
  split_parent();

  expect_waits_for(kParent);
}

TEST_F(WorkInTheBackground, OfAGroupOnAChildThatCameLaterIsWaitedFor) {
  split_parent();
  all_reduce_in_a_group(kChild);

  expect_waits_for(kChild);
}

TEST_F(WorkInTheBackground, OfAGroupOnAChildOfABlockingParentIsWaitedFor) {
  g_nccl.made = kChild;
  split_parent();
  EXPECT_FALSE(client_.async_communicators.any());
  all_reduce_in_a_group(kChild);

  expect_waits_for(kChild);
}

/// A parent that has an identity.
class Children : public WorkInTheBackground {
 protected:
  Children() { client_.gate.add_communicator(kParent, kWorld); }

  int split_into(Comm* child, int color = 0) {
    return call(NcclFunction::ncclCommSplit, kParent, color, 0, child, static_cast<void*>(nullptr));
  }
  int ask(Comm comm) {
    int state = ncclSuccess;
    EXPECT_EQ(call(NcclFunction::ncclCommGetAsyncError, comm, &state), ncclSuccess);
    return state;
  }
  /// The identity that the next split gives its child.
  CommunicatorId next_identity() {
    Comm child = nullptr;
    g_nccl.made = kChild;
    EXPECT_EQ(split_into(&child), ncclSuccess);
    const CommunicatorId id = client_.gate.id_of(kChild);
    EXPECT_EQ(call(NcclFunction::ncclCommDestroy, kChild), ncclSuccess);
    g_nccl.made = nullptr;
    return id;
  }
  /// That of the splits of a rank on which nothing fails.
  static CommunicatorId identity_of_split(int number) {
    DerivedCommunicators derived;
    for (int i = 1; i < number; ++i) (void)derived.next(kParent, kWorld, 0, {});
    return derived.next(kParent, kWorld, 0, {});
  }

  static constexpr CommunicatorId kWorld{{1, 2}};
};

TEST_F(Children, ThatCameLaterHasItsIdentityAndIsForgottenWithItsEnd) {
  for (int number = 1; number <= 1200; ++number) {
    Comm child = nullptr;
    EXPECT_EQ(split_into(&child), ncclSuccess);
    g_nccl.states[kParent] = ncclInProgress;
    EXPECT_EQ(ask(kParent), ncclInProgress);
    ASSERT_EQ(client_.gate.communicator_ids().size(), 2u) << "the child is announced";
    child = kChild;
    g_nccl.states[kParent] = ncclSuccess;
    EXPECT_EQ(ask(kParent), ncclSuccess);
    ASSERT_EQ(client_.gate.id_of(kChild), identity_of_split(number));
    expect_waits_for(kChild);
    call(NcclFunction::ncclCommDestroy, kChild);
    ASSERT_EQ(client_.gate.communicator_ids(), CommunicatorIds{kWorld}) << number;
  }
  EXPECT_FALSE(client_.gate.has_unidentified());
}

// Their slots may not exist any more, so they are not read.
TEST_F(Children, ThatNeverComeAreForgottenWithTheirParent) {
  for (const bool fails : {true, false}) {
    client_.gate.add_communicator(kParent, kWorld);
    Comm child = nullptr;
    EXPECT_EQ(split_into(&child), ncclSuccess);
    EXPECT_EQ(client_.gate.communicator_ids().size(), 2u);
    if (fails) {
      g_nccl.states[kParent] = ncclSystemError;
      EXPECT_EQ(ask(kParent), ncclSystemError);
      EXPECT_EQ(client_.gate.communicator_ids(), CommunicatorIds{kWorld});
    } else {
      child = kChild;
    }
    call(NcclFunction::ncclCommDestroy, kParent);
    EXPECT_TRUE(client_.gate.communicator_ids().empty());
  }
}

TEST_F(Children, CallThatFailsIsNotCounted) {
  Comm child = nullptr;
  g_nccl.split_result = ncclInvalidArgument;
  EXPECT_EQ(split_into(&child), ncclInvalidArgument);
  g_nccl.split_result = ncclSuccess;
  EXPECT_EQ(next_identity(), identity_of_split(1));
}

TEST_F(Children, GroupThatFailsIsNotCountedAndLeavesNothing) {
  Comm child = nullptr;
  g_nccl.group_result = ncclInvalidUsage;
  call(NcclFunction::ncclGroupStart);
  EXPECT_EQ(split_into(&child), ncclSuccess);
  EXPECT_EQ(call(NcclFunction::ncclGroupEnd), ncclInvalidUsage);
  EXPECT_EQ(client_.gate.communicator_ids(), CommunicatorIds{kWorld});
  EXPECT_FALSE(client_.async_communicators.any());
  EXPECT_EQ(next_identity(), identity_of_split(1));
}

TEST_F(Children, SplitInWhichTheRankGetsNoneIsCounted) {
  Comm child = nullptr;
  EXPECT_EQ(split_into(&child, -1), ncclSuccess);
  EXPECT_EQ(client_.gate.communicator_ids(), CommunicatorIds{kWorld});
  EXPECT_EQ(next_identity(), identity_of_split(2));
}

TEST_F(Children, OfOneGroupAreCountedInTheOrderOfTheirCalls) {
  Comm first = nullptr, second = nullptr;
  g_nccl.group_result = ncclSuccess;
  call(NcclFunction::ncclGroupStart);
  g_nccl.made = kChild;
  EXPECT_EQ(split_into(&first), ncclSuccess);
  g_nccl.made = reinterpret_cast<Comm>(0x3000);
  EXPECT_EQ(split_into(&second), ncclSuccess);
  EXPECT_EQ(call(NcclFunction::ncclGroupEnd), ncclSuccess);
  EXPECT_EQ(client_.gate.id_of(first), identity_of_split(1));
  EXPECT_EQ(client_.gate.id_of(second), identity_of_split(2));
}

}  // namespace
}  // namespace amem
