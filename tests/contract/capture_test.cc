// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Stream capture, graphs, and what a capture forbids.
#include <atomic>

#include "tests/contract/capture_case.h"

namespace amem::contract {
namespace {

class Graphs : public CaptureCase {};
class CaptureForbids : public CaptureCase {};
class CaptureAllows : public CaptureCase {};

TEST_F(Graphs, RunWhatWasCapturedAtEachLaunch) {
  const CuDevicePtr copy = allocate(kBytes);
  fill(copy, 0, kBytes);
  std::atomic<int> calls{0};
  CuGraph graph = nullptr;
  CuGraphExec exec = nullptr;
  begin();
  ASSERT_EQ(kSuccess, driver().cuMemcpyDtoDAsync(copy, address_, kBytes, stream_));
  ASSERT_EQ(kSuccess,
            driver().cuLaunchHostFunc(
                stream_, [](void* data) { *static_cast<std::atomic<int>*>(data) += 1; }, &calls));
  ASSERT_EQ(kSuccess, driver().cuStreamEndCapture(stream_, &graph));
  ASSERT_EQ(kSuccess, driver().cuGraphInstantiateWithFlags(&exec, graph, 0));
  EXPECT_EQ(0, calls) << "capturing is not running";
  EXPECT_TRUE(filled(copy, 0, kBytes));

  for (int launch = 1; launch <= 3; ++launch) {
    fill(copy, 0, kBytes);
    ASSERT_EQ(kSuccess, driver().cuGraphLaunch(exec, stream_));
    ASSERT_EQ(kSuccess, driver().cuStreamSynchronize(stream_));
    EXPECT_EQ(launch, calls);
    EXPECT_TRUE(filled(copy, 1, kBytes));
  }

  EXPECT_EQ(kSuccess, driver().cuGraphExecDestroy(exec));
  EXPECT_EQ(kSuccess, driver().cuGraphDestroy(graph));
  free(copy, kBytes);
}

TEST_F(Graphs, AreTheOnesThatTheirCapturesName) {
  begin();
  int status = kCaptureStatusNone;
  CuGraph named = nullptr, graph = nullptr;
  ASSERT_EQ(kSuccess,
            driver().cuStreamGetCaptureInfo(stream_, &status, nullptr, &named, nullptr, nullptr));
  EXPECT_EQ(kCaptureStatusActive, status);
  ASSERT_EQ(kSuccess, driver().cuStreamEndCapture(stream_, &graph));
  EXPECT_EQ(named, graph);
  EXPECT_EQ(kSuccess, driver().cuGraphDestroy(graph));
}

TEST_F(Graphs, CanBeCapturedOnAfterAJoinedStreamIsDestroyed) {
  CuStream side = nullptr;
  CuEvent forked = nullptr, joined = nullptr;
  CuGraph graph = nullptr;
  int status = kCaptureStatusNone;
  ASSERT_EQ(kSuccess, driver().cuStreamCreate(&side, kStreamNonBlocking));
  for (CuEvent* event : {&forked, &joined}) ASSERT_EQ(kSuccess, driver().cuEventCreate(event, 0));
  begin();
  ASSERT_EQ(kSuccess, driver().cuEventRecord(forked, stream_));
  ASSERT_EQ(kSuccess, driver().cuStreamWaitEvent(side, forked, 0));
  ASSERT_EQ(kSuccess, driver().cuMemsetD8Async(address_, 2, kBytes, side));
  ASSERT_EQ(kSuccess, driver().cuEventRecord(joined, side));
  ASSERT_EQ(kSuccess, driver().cuStreamWaitEvent(stream_, joined, 0));

  EXPECT_EQ(kSuccess, driver().cuStreamDestroy(side));

  EXPECT_EQ(kSuccess,
            driver().cuStreamGetCaptureInfo(stream_, &status, nullptr, nullptr, nullptr, nullptr));
  EXPECT_EQ(kCaptureStatusActive, status);
  EXPECT_EQ(kSuccess, driver().cuStreamEndCapture(stream_, &graph));
  EXPECT_EQ(kSuccess, driver().cuGraphDestroy(graph));
  for (CuEvent event : {forked, joined}) EXPECT_EQ(kSuccess, driver().cuEventDestroy(event));
}

TEST_F(Graphs, WorkWithNewMemoryAtTheSameAddress) {
  CuDevicePtr source = allocate(kBytes);
  CuGraph graph = nullptr;
  CuGraphExec exec = nullptr;
  ASSERT_EQ(kSuccess, driver().cuStreamBeginCapture(stream_, kCaptureGlobal));
  ASSERT_EQ(kSuccess, driver().cuMemcpyDtoDAsync(address_, source, kBytes, stream_));
  ASSERT_EQ(kSuccess, driver().cuMemsetD32Async(source, 8, kWords, stream_));
  ASSERT_EQ(kSuccess, driver().cuStreamEndCapture(stream_, &graph));
  ASSERT_EQ(kSuccess, driver().cuGraphInstantiateWithFlags(&exec, graph, 0));

  for (uint32_t round = 100; round < 103; ++round) {
    ASSERT_EQ(kSuccess, driver().cuMemUnmap(source, kBytes));
    const CuMemHandle fresh = create(kBytes);
    map(source, kBytes, fresh);
    ASSERT_EQ(kSuccess, driver().cuMemRelease(fresh));
    fill(source, round, kBytes);
    ASSERT_EQ(kSuccess, driver().cuGraphLaunch(exec, stream_));
    ASSERT_EQ(kSuccess, driver().cuStreamSynchronize(stream_));
    EXPECT_TRUE(filled(address_, round, kBytes));
    EXPECT_TRUE(filled(source, 8, kBytes));
  }

  EXPECT_EQ(kSuccess, driver().cuGraphExecDestroy(exec));
  EXPECT_EQ(kSuccess, driver().cuGraphDestroy(graph));
  free(source, kBytes);
}

TEST_F(Graphs, SpanStreamsThatAreJoinedByEvents) {
  CuEvent fork = nullptr;
  CuEvent join = nullptr;
  CuGraph graph = nullptr;
  CuGraphExec exec = nullptr;
  ASSERT_EQ(kSuccess, driver().cuEventCreate(&fork, kEventDisableTiming));
  ASSERT_EQ(kSuccess, driver().cuEventCreate(&join, kEventDisableTiming));
  begin();
  ASSERT_EQ(kSuccess, driver().cuEventRecord(fork, stream_));
  ASSERT_EQ(kSuccess, driver().cuStreamWaitEvent(other_, fork, 0));
  ASSERT_EQ(kSuccess, driver().cuMemsetD32Async(address_, 2, kWords, other_));
  ASSERT_EQ(kSuccess, driver().cuEventRecord(join, other_));
  ASSERT_EQ(kSuccess, driver().cuStreamWaitEvent(stream_, join, 0));
  ASSERT_EQ(kSuccess, driver().cuStreamEndCapture(stream_, &graph));
  ASSERT_EQ(kSuccess, driver().cuGraphInstantiateWithFlags(&exec, graph, 0));

  ASSERT_EQ(kSuccess, driver().cuGraphLaunch(exec, stream_));
  ASSERT_EQ(kSuccess, driver().cuStreamSynchronize(stream_));

  EXPECT_TRUE(filled(address_, 2, kBytes));
  EXPECT_EQ(kSuccess, driver().cuGraphExecDestroy(exec));
  EXPECT_EQ(kSuccess, driver().cuGraphDestroy(graph));
  EXPECT_EQ(kSuccess, driver().cuEventDestroy(fork));
  EXPECT_EQ(kSuccess, driver().cuEventDestroy(join));
}

TEST_F(Graphs, AreRefusedWhenAStreamWasNotJoined) {
  CuEvent fork = nullptr;
  CuGraph graph = nullptr;
  ASSERT_EQ(kSuccess, driver().cuEventCreate(&fork, kEventDisableTiming));
  begin();
  ASSERT_EQ(kSuccess, driver().cuEventRecord(fork, stream_));
  ASSERT_EQ(kSuccess, driver().cuStreamWaitEvent(other_, fork, 0));
  ASSERT_EQ(kSuccess, driver().cuMemsetD32Async(address_, 2, kWords, other_));

  EXPECT_EQ(kErrorStreamCaptureUnjoined, driver().cuStreamEndCapture(stream_, &graph));

  EXPECT_EQ(kSuccess, driver().cuEventDestroy(fork));
}

TEST_F(CaptureForbids, SynchronizingTheStream) {
  begin();
  EXPECT_EQ(kErrorStreamCaptureUnsupported, driver().cuStreamSynchronize(stream_));
  end_spoilt();
}

TEST_F(CaptureForbids, AskingWhetherTheStreamIsReady) {
  begin();
  EXPECT_EQ(kErrorStreamCaptureUnsupported, driver().cuStreamQuery(stream_));
  end_spoilt();
}

TEST_F(CaptureForbids, MoreWorkOnceItIsSpoilt) {
  begin();
  ASSERT_EQ(kErrorStreamCaptureUnsupported, driver().cuStreamQuery(stream_));
  EXPECT_EQ(kErrorStreamCaptureInvalidated,
            driver().cuMemsetD32Async(address_, 3, kWords, stream_));
  end_spoilt();
}

TEST_F(CaptureForbids, SynchronizingTheContext) {
  begin();
  EXPECT_EQ(kErrorStreamCaptureUnsupported, driver().cuCtxSynchronize());
  end_spoilt();
}

TEST_F(CaptureForbids, SynchronizingTheContextFromAnotherThread) {
  begin();
  in_thread(kCaptureGlobal,
            [] { EXPECT_EQ(kErrorStreamCaptureUnsupported, driver().cuCtxSynchronize()); });
  end_spoilt();
}

TEST_F(CaptureForbids, SynchronizingTheContextFromARelaxedThread) {
  begin();
  in_thread(kCaptureRelaxed,
            [] { EXPECT_EQ(kErrorStreamCaptureUnsupported, driver().cuCtxSynchronize()); });
  end_spoilt();
}

TEST_F(CaptureForbids, SynchronizingTheContextOfARelaxedCapture) {
  begin(kCaptureRelaxed);
  in_thread(kCaptureRelaxed,
            [] { EXPECT_EQ(kErrorStreamCaptureUnsupported, driver().cuCtxSynchronize()); });
  end_spoilt();
}

TEST_F(CaptureForbids, PlainAllocationInTheSameThread) {
  CuDevicePtr address = 0;
  begin();
  EXPECT_EQ(kErrorStreamCaptureUnsupported, driver().cuMemAlloc(&address, granularity()));
  end_spoilt();
}

TEST_F(CaptureForbids, PlainAllocationInAnotherThread) {
  begin();
  in_thread(kCaptureGlobal, [this] {
    CuDevicePtr address = 0;
    EXPECT_EQ(kErrorStreamCaptureUnsupported, driver().cuMemAlloc(&address, granularity()));
  });
  end_spoilt();
}

TEST_F(CaptureForbids, NullStreamNextToABlockingStream) {
  CuStream blocking = nullptr;
  CuGraph graph = nullptr;
  ASSERT_EQ(kSuccess, driver().cuStreamCreate(&blocking, kStreamDefault));
  ASSERT_EQ(kSuccess, driver().cuStreamBeginCapture(blocking, kCaptureRelaxed));

  int status = kCaptureStatusNone;
  EXPECT_EQ(kErrorStreamCaptureImplicit,
            driver().cuStreamGetCaptureInfo(nullptr, &status, nullptr, nullptr, nullptr, nullptr));
  EXPECT_EQ(kSuccess,
            driver().cuStreamGetCaptureInfo(blocking, &status, nullptr, nullptr, nullptr, nullptr));
  EXPECT_EQ(kCaptureStatusActive, status) << "the query does not invalidate it";
  EXPECT_EQ(kErrorStreamCaptureImplicit, driver().cuMemsetD32Async(address_, 3, kWords, nullptr));

  EXPECT_EQ(kErrorStreamCaptureInvalidated, driver().cuStreamEndCapture(blocking, &graph));
  EXPECT_EQ(kSuccess, driver().cuStreamDestroy(blocking));
}

TEST_F(CaptureForbids, AskingForACapturedEvent) {
  CuEvent event = nullptr;
  ASSERT_EQ(kSuccess, driver().cuEventCreate(&event, kEventDisableTiming));
  begin(kCaptureRelaxed);
  ASSERT_EQ(kSuccess, driver().cuEventRecord(event, stream_));

  EXPECT_EQ(kErrorCapturedEvent, driver().cuEventQuery(event));

  end_spoilt();
  EXPECT_EQ(kSuccess, driver().cuEventDestroy(event));
}

TEST_F(CaptureAllows, PlainAllocationInARelaxedThread) {
  begin();
  in_thread(kCaptureRelaxed, [this] {
    CuDevicePtr address = 0;
    EXPECT_EQ(kSuccess, driver().cuMemAlloc(&address, granularity()));
    EXPECT_EQ(kSuccess, driver().cuMemFree(address));
  });
  end_well();
}

TEST_F(CaptureAllows, PlainAllocationInAnotherThreadOfAThreadLocalCapture) {
  begin(kCaptureThreadLocal);
  in_thread(kCaptureGlobal, [this] {
    CuDevicePtr address = 0;
    EXPECT_EQ(kSuccess, driver().cuMemAlloc(&address, granularity()));
    EXPECT_EQ(kSuccess, driver().cuMemFree(address));
  });
  end_well();
}

TEST_F(CaptureAllows, PlainAllocationInAThreadThatIgnoresOthersCaptures) {
  begin();
  in_thread(kCaptureThreadLocal, [this] {
    CuDevicePtr address = 0;
    EXPECT_EQ(kSuccess, driver().cuMemAlloc(&address, granularity()));
    EXPECT_EQ(kSuccess, driver().cuMemFree(address));
  });
  end_well();
}

// What a service thread does for a peer while the program captures.
TEST_F(CaptureAllows, MappingAndCopyingInARelaxedThread) {
  begin();
  in_thread(kCaptureRelaxed, [this] {
    const CuDevicePtr address = allocate(granularity());
    void* pinned = nullptr;
    EXPECT_EQ(kSuccess, driver().cuMemHostAlloc(&pinned, granularity(), 0));
    EXPECT_EQ(kSuccess, driver().cuMemsetD8Async(address, 6, granularity(), other_));
    EXPECT_EQ(kSuccess, driver().cuMemcpyDtoHAsync(pinned, address, granularity(), other_));
    EXPECT_EQ(kSuccess, driver().cuStreamSynchronize(other_));
    EXPECT_EQ(6, *static_cast<char*>(pinned));
    EXPECT_EQ(kSuccess, driver().cuMemFreeHost(pinned));
    free(address, granularity());
  });
  end_well();
}

TEST_F(CaptureAllows, WorkInOtherStreams) {
  begin(kCaptureRelaxed);
  EXPECT_EQ(kSuccess, driver().cuMemsetD32Async(address_, 3, kWords, other_));
  EXPECT_EQ(kSuccess, driver().cuStreamSynchronize(other_));
  end_well();
  EXPECT_TRUE(filled(address_, 3, kBytes));
}

}  // namespace
}  // namespace amem::contract
