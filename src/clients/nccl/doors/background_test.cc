// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// What NCCL goes on with after a call has returned, through the doors of an NCCL that the test
// plays.
#include <gtest/gtest.h>

#include <map>

#include "clients/nccl/doors/passage.h"

namespace amem {
namespace {

constexpr int kCopy = kMostCopies - 1;

struct {
  std::map<Comm, int> states;  ///< what ncclCommGetAsyncError says; ncclSuccess of others
  Comm made;                   ///< what a split fills in before it returns
} g_nccl;

int split(Comm, int, int, Comm* child, void*) {
  *child = g_nccl.made;
  return ncclSuccess;
}
int all_reduce(const void*, void*, size_t, int, int, Comm, Stream) { return ncclSuccess; }
int start_group() { return ncclSuccess; }
int end_group() { return ncclInProgress; }
int get_async_error(Comm communicator, int* state) {
  *state = g_nccl.states[communicator];
  return ncclSuccess;
}

class WorkInTheBackground : public testing::Test {
 protected:
  WorkInTheBackground() {
    g_nccl = {};
    set(NcclFunction::ncclCommSplit, &split);
    set(NcclFunction::ncclAllReduce, &all_reduce);
    set(NcclFunction::ncclGroupStart, &start_group);
    set(NcclFunction::ncclGroupEnd, &end_group);
    set(NcclFunction::ncclCommGetAsyncError, &get_async_error);
    context_.client = &client_;
    install_hooks(&context_);
  }
  ~WorkInTheBackground() override {
    install_hooks(nullptr);
    g_nccl_copies[kCopy].real = {};
  }
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
  NcclClient client_{driver_, registry_, {}};
  HookContext context_;
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

}  // namespace
}  // namespace amem
