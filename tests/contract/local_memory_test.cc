// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// The local memory of a context: what makes it grow, and what returns it.
#include <atomic>
#include <functional>
#include <latch>
#include <vector>

#include "jobs/deep_stack_ptx.h"
#include "tests/contract/capture_case.h"
#include "tests/contract/gate.h"
#include "tests/contract/simulator_case.h"

namespace amem::contract {
namespace {

/// A kernel of 4000 bytes of stack, and a context that has no room for it yet.
class LocalMemory : public CaptureCase {
 protected:
  void SetUp() override {
    CaptureCase::SetUp();
    ASSERT_EQ(kSuccess, driver().cuModuleLoadData(&module_, jobs::kDeepStackPtx));
    ASSERT_EQ(kSuccess, driver().cuModuleGetFunction(&kernel_, module_, jobs::kDeepStackKernel));
    ASSERT_EQ(kSuccess, set_stack(kLeast));
  }

  void TearDown() override {
    EXPECT_EQ(kSuccess, driver().cuModuleUnload(module_));
    EXPECT_EQ(kSuccess, set_stack(kInitial));
    CaptureCase::TearDown();
  }

  static CuResult set_stack(size_t bytes) { return driver().cuCtxSetLimit(kLimitStackSize, bytes); }

  static size_t stack() {
    size_t bytes = 0;
    EXPECT_EQ(kSuccess, driver().cuCtxGetLimit(&bytes, kLimitStackSize));
    return bytes;
  }

  CuResult launch() {
    void* parameters[] = {&address_};
    return driver().cuLaunchKernel(kernel_, 1, 1, 1, kThreads, 1, 1, 0, stream_, parameters,
                                   nullptr);
  }

  CuGraphExec captured_launch() {
    CuGraph graph = nullptr;
    CuGraphExec ready = nullptr;
    EXPECT_EQ(kSuccess, driver().cuStreamBeginCapture(stream_, kCaptureThreadLocal));
    EXPECT_EQ(kSuccess, launch());
    EXPECT_EQ(kSuccess, driver().cuStreamEndCapture(stream_, &graph));
    EXPECT_EQ(kSuccess, driver().cuGraphInstantiateWithFlags(&ready, graph, 0));
    EXPECT_EQ(kSuccess, driver().cuGraphDestroy(graph));
    return ready;
  }

  /// The last launch has ended, and each thread has had a stack of its own.
  void expect_ran() {
    std::vector<uint32_t> sums(kThreads);
    ASSERT_EQ(kSuccess, driver().cuStreamSynchronize(stream_));
    ASSERT_EQ(kSuccess,
              driver().cuMemcpyDtoH(sums.data(), address_, sums.size() * sizeof(uint32_t)));
    for (uint32_t thread = 0; thread < kThreads; ++thread)
      ASSERT_EQ(jobs::deep_stack_sum(thread), sums[thread]) << "thread " << thread;
    ASSERT_EQ(kSuccess, driver().cuMemsetD32(address_, 0, kThreads));
  }

  /// Takes all memory of the GPU, down to pieces of 2 MiB.
  void fill_gpu() {
    for (size_t piece = 4096 * kMb; piece >= 2 * kMb;) {
      CuDevicePtr address = 0;
      if (driver().cuMemAlloc(&address, piece) == kSuccess)
        pieces_.push_back(address);
      else
        piece /= 2;
    }
  }
  void empty_gpu() {
    for (const CuDevicePtr address : pieces_) EXPECT_EQ(kSuccess, driver().cuMemFree(address));
    pieces_.clear();
  }

  using Call = std::function<CuResult()>;

  /// The limit, a launch, a copy, a fill and an event record.
  std::vector<Call> submissions(void* pinned, CuEvent event) {
    return {[] {
              size_t bytes = 0;
              return driver().cuCtxGetLimit(&bytes, kLimitStackSize);
            },
            [this] { return launch(); },
            [this, pinned] { return driver().cuMemcpyDtoHAsync(pinned, address_, kMb, stream_); },
            [this] { return driver().cuMemsetD8Async(address_, 0, kMb, stream_); },
            [this, event] { return driver().cuEventRecord(event, stream_); }};
  }

  /// Takes and returns memory, and asks the idle stream.
  void expect_memory_calls_succeed() {
    const CuDevicePtr address = allocate(granularity());
    EXPECT_GT(free_bytes(), 0u);
    free(address, granularity());
    EXPECT_EQ(kSuccess, driver().cuStreamQuery(stream_));
  }

  /// While `waiting` waits for work of the context, submissions of other threads wait as well.
  /// Calls for memory do not.
  void expect_submissions_wait(const Call& waiting) {
    void* pinned = nullptr;
    CuEvent event = nullptr;
    ASSERT_EQ(kSuccess, driver().cuMemHostAlloc(&pinned, kMb, 0));
    ASSERT_EQ(kSuccess, driver().cuEventCreate(&event, kEventDisableTiming));
    ASSERT_EQ(kSuccess, launch());
    expect_ran();
    Gate gate;
    ASSERT_EQ(kSuccess, driver().cuLaunchHostFunc(other_, &Gate::hold, &gate));
    ASSERT_TRUE(gate.wait_until_held());
    std::latch first(1), others(1);
    std::atomic<int> begun = 0, returned = 0;
    std::vector<std::thread> threads;
    const auto start = [&](const Call& call, std::latch& may_begin) {
      threads.emplace_back([&, call] {
        EXPECT_EQ(kSuccess, driver().cuCtxSetCurrent(context_));
        may_begin.wait();
        ++begun;
        EXPECT_EQ(kSuccess, call());
        ++returned;
      });
    };
    start(waiting, first);
    for (const Call& call : submissions(pinned, event)) start(call, others);

    first.count_down();
    EXPECT_TRUE(eventually([&] { return begun == 1; }));
    EXPECT_TRUE(stays_false([&] { return returned > 0; }));
    others.count_down();
    EXPECT_TRUE(eventually([&] { return begun == static_cast<int>(threads.size()); }));
    EXPECT_TRUE(stays_false([&] { return returned > 0; }));
    expect_memory_calls_succeed();
    EXPECT_EQ(kErrorNotReady, driver().cuStreamQuery(other_)) << "they have waited for the work";

    gate.open();
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(kSuccess, driver().cuStreamSynchronize(stream_));
    EXPECT_EQ(kSuccess, driver().cuEventDestroy(event));
    EXPECT_EQ(kSuccess, driver().cuMemFreeHost(pinned));
  }

  static constexpr size_t kLeast = 1, kInitial = 1024;
  /// What stacks of 4000 bytes take on the smallest GPU that there is, the simulated one.
  static constexpr size_t kAtLeastTaken = 24 * kMb;
  static constexpr unsigned kThreads = 64;
  CuModule module_ = nullptr;
  CuFunction kernel_ = nullptr;
  std::vector<CuDevicePtr> pieces_;
};

/// What amem attributes to it.
TEST_F(LocalMemory, HasTheStackOfEachThreadThatTheGpuCanRunAtOnce) {
  int multiprocessors = 0, threads = 0;
  ASSERT_EQ(kSuccess,
            driver().cuDeviceGetAttribute(&multiprocessors, kAttributeMultiprocessorCount, 0));
  ASSERT_EQ(kSuccess,
            driver().cuDeviceGetAttribute(&threads, kAttributeThreadsPerMultiprocessor, 0));
  const size_t each = static_cast<size_t>(multiprocessors) * static_cast<size_t>(threads);
  constexpr size_t kMore = 4 * kInitial;
  ASSERT_EQ(kSuccess, set_stack(kInitial));
  const size_t before = free_bytes();
  ASSERT_EQ(kSuccess, set_stack(kInitial + kMore));
  EXPECT_NEAR(static_cast<double>(before - free_bytes()), static_cast<double>(kMore * each),
              4 << 20);
}

TEST_F(LocalMemory, GrowsWithTheDeepestKernelAndStays) {
  const size_t free_before = free_bytes();

  ASSERT_EQ(kSuccess, launch());
  expect_ran();

  const size_t free_after = free_bytes();
  EXPECT_LE(free_after + kAtLeastTaken, free_before);
  EXPECT_GE(stack(), jobs::kDeepStackBytes);
  fill(address_, 3, kBytes);
  ASSERT_EQ(kSuccess, launch());
  expect_ran();
  EXPECT_EQ(free_bytes(), free_after);
}

TEST_F(LocalMemory, IsReturnedByALowerLimit) {
  ASSERT_EQ(kSuccess, launch());
  expect_ran();
  const size_t free_before = free_bytes();

  ASSERT_EQ(kSuccess, set_stack(kLeast));

  EXPECT_GE(free_bytes(), free_before + kAtLeastTaken);
  EXPECT_GE(stack(), kLeast);
  EXPECT_LT(stack(), kInitial);
  ASSERT_EQ(kSuccess, launch()) << "the driver takes it again";
  expect_ran();
  EXPECT_GE(stack(), jobs::kDeepStackBytes);
}

TEST_F(LocalMemory, IsTakenByAHigherLimit) {
  const size_t free_before = free_bytes();

  ASSERT_EQ(kSuccess, set_stack(jobs::kDeepStackBytes));

  const size_t free_after = free_bytes();
  EXPECT_LE(free_after + kAtLeastTaken, free_before);
  EXPECT_GE(stack(), jobs::kDeepStackBytes);
  ASSERT_EQ(kSuccess, launch());
  expect_ran();
  EXPECT_EQ(free_bytes(), free_after);
}

TEST_F(LocalMemory, LowerLimitWaitsForTheWorkOfTheContext) {
  ASSERT_EQ(kSuccess, launch());
  expect_ran();
  Gate gate;
  std::atomic<bool> returned = false;
  ASSERT_EQ(kSuccess, driver().cuLaunchHostFunc(other_, &Gate::hold, &gate));
  ASSERT_TRUE(gate.wait_until_held());

  std::thread setter([&] {
    EXPECT_EQ(kSuccess, driver().cuCtxSetCurrent(context_));
    EXPECT_EQ(kSuccess, set_stack(kLeast));
    returned = true;
  });

  EXPECT_TRUE(stays_false([&] { return returned.load(); }));
  gate.open();
  setter.join();
  EXPECT_LT(stack(), kInitial);
}

TEST_F(LocalMemory, SubmissionsWaitForALowerLimit) {
  expect_submissions_wait([] { return set_stack(kLeast); });
}

TEST_F(LocalMemory, SubmissionsWaitForCuMemFreeHost) {
  void* pinned = nullptr;
  ASSERT_EQ(kSuccess, driver().cuMemHostAlloc(&pinned, 64, 0));
  expect_submissions_wait([pinned] { return driver().cuMemFreeHost(pinned); });
}

TEST_F(LocalMemory, SubmissionsWaitForCuMemFree) {
  CuDevicePtr address = 0;
  ASSERT_EQ(kSuccess, driver().cuMemAlloc(&address, 64));
  expect_submissions_wait([address] { return driver().cuMemFree(address); });
}

TEST_F(LocalMemory, LimitIsSetBesideACaptureOfAnotherThread) {
  ASSERT_EQ(kSuccess, launch());
  expect_ran();
  begin();

  in_thread(kCaptureRelaxed, [] {
    EXPECT_EQ(kSuccess, set_stack(kLeast));
    EXPECT_EQ(kSuccess, set_stack(jobs::kDeepStackBytes));
  });

  end_well();
}

TEST_F(LocalMemory, GraphsRunAfterIt) {
  const CuGraphExec before = captured_launch();
  ASSERT_EQ(kSuccess, driver().cuGraphLaunch(before, stream_));
  expect_ran();

  ASSERT_EQ(kSuccess, set_stack(kLeast));

  const CuGraphExec while_small = captured_launch();
  for (const CuGraphExec graph : {before, while_small}) {
    ASSERT_EQ(kSuccess, driver().cuGraphLaunch(graph, stream_));
    expect_ran();
    ASSERT_EQ(kSuccess, set_stack(kLeast));
    EXPECT_EQ(kSuccess, driver().cuGraphExecDestroy(graph));
  }
}

TEST_F(LocalMemory, HasNoRoomOnAFullGpu) {
  const CuGraphExec graph = captured_launch();
  ASSERT_EQ(kSuccess, set_stack(kLeast));

  fill_gpu();

  EXPECT_EQ(kErrorOutOfMemory, set_stack(jobs::kDeepStackBytes));
  EXPECT_EQ(kErrorOutOfMemory, launch());
  EXPECT_EQ(kErrorOutOfMemory, driver().cuGraphLaunch(graph, stream_));
  EXPECT_LT(stack(), kInitial);
  fill(address_, 7, kBytes);
  EXPECT_TRUE(filled(address_, 7, kBytes)) << "what needs no stack runs";

  empty_gpu();

  EXPECT_EQ(kSuccess, launch());
  expect_ran();
  EXPECT_EQ(kSuccess, driver().cuGraphLaunch(graph, stream_));
  expect_ran();
  EXPECT_EQ(kSuccess, set_stack(jobs::kDeepStackBytes));
  EXPECT_EQ(kSuccess, driver().cuGraphExecDestroy(graph));
}

TEST_F(LocalMemory, LimitNeedsACurrentContext) {
  std::thread([] {
    size_t bytes = 0;
    EXPECT_EQ(kErrorInvalidContext, driver().cuCtxGetLimit(&bytes, kLimitStackSize));
    EXPECT_EQ(kErrorInvalidContext, set_stack(kInitial));
  }).join();
}

using SimulatorLocalMemory = SimulatorCase;
TEST_F(SimulatorLocalMemory, IsInProportionToTheGpu) {
  constexpr long long kContextBytes = 8 * static_cast<long long>(kMb);
  CuContext second = nullptr;
  const long long before = api_.used_bytes(1);

  ASSERT_EQ(kSuccess, driver().cuDevicePrimaryCtxRetain(&second, 1));
  EXPECT_EQ(before + kContextBytes, api_.used_bytes(1));
  ASSERT_EQ(kSuccess, driver().cuDevicePrimaryCtxRelease(1));
  EXPECT_EQ(before, api_.used_bytes(1));

  size_t total = 0;
  ASSERT_EQ(kSuccess, driver().cuDeviceTotalMem(&total, 1));
  CuAllocationProp there = properties();
  there.location.id = 1;
  CuMemHandle all = 0;
  const size_t rest = total - static_cast<size_t>(before + kContextBytes) + granularity();
  ASSERT_EQ(kSuccess, driver().cuMemCreate(&all, rest, &there, 0));
  EXPECT_EQ(kErrorOutOfMemory, driver().cuDevicePrimaryCtxRetain(&second, 1));
  EXPECT_EQ(before + static_cast<long long>(rest), api_.used_bytes(1)) << "it has kept nothing";
  EXPECT_EQ(kSuccess, driver().cuMemRelease(all));
}

}  // namespace
}  // namespace amem::contract
