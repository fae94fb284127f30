// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <thread>

#include "tests/contract/gpu_test.h"

namespace amem::contract {

/// Two streams and memory, warmed up; the first stream is the one that captures.
class CaptureCase : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    ASSERT_EQ(kSuccess, driver().cuStreamCreate(&stream_, kStreamNonBlocking));
    ASSERT_EQ(kSuccess, driver().cuStreamCreate(&other_, kStreamNonBlocking));
    address_ = allocate(kBytes);
    // Warmed up outside of the capture: the first use of a kind of work may allocate.
    fill(address_, 0, kBytes);
    ASSERT_EQ(kSuccess, driver().cuMemsetD32Async(address_, 0, kWords, stream_));
    ASSERT_EQ(kSuccess, driver().cuStreamSynchronize(stream_));
  }

  void TearDown() override {
    EXPECT_EQ(kSuccess, driver().cuStreamDestroy(stream_));
    EXPECT_EQ(kSuccess, driver().cuStreamDestroy(other_));
    free(address_, kBytes);
    GpuTest::TearDown();
  }

  void begin(int mode = kCaptureGlobal) {
    ASSERT_EQ(kSuccess, driver().cuStreamBeginCapture(stream_, mode));
    ASSERT_EQ(kSuccess, driver().cuMemsetD32Async(address_, 1, kWords, stream_));
  }

  int status() {
    int status = -1;
    EXPECT_EQ(kSuccess, driver().cuStreamIsCapturing(stream_, &status));
    return status;
  }

  // Ends a capture that nothing may have spoilt.
  void end_well() {
    CuGraph graph = nullptr;
    EXPECT_EQ(kCaptureStatusActive, status());
    EXPECT_EQ(kSuccess, driver().cuStreamEndCapture(stream_, &graph));
    if (graph != nullptr) {
      EXPECT_EQ(kSuccess, driver().cuGraphDestroy(graph));
    }
  }

  void end_spoilt() {
    CuGraph graph = nullptr;
    EXPECT_EQ(kCaptureStatusInvalidated, status());
    EXPECT_EQ(kErrorStreamCaptureInvalidated, driver().cuStreamEndCapture(stream_, &graph));
    EXPECT_EQ(nullptr, graph);
    EXPECT_EQ(kCaptureStatusNone, status());
  }

  // Runs the body in another thread, in a mode of its own, with the context current.
  template <typename Body>
  void in_thread(int mode, Body body) {
    std::thread([&] {
      int exchanged = mode;
      EXPECT_EQ(kSuccess, driver().cuCtxSetCurrent(context_));
      EXPECT_EQ(kSuccess, driver().cuThreadExchangeStreamCaptureMode(&exchanged));
      EXPECT_EQ(kCaptureGlobal, exchanged) << "the mode every thread starts with";
      body();
    }).join();
  }

  static constexpr size_t kBytes = 4 * kMb;
  static constexpr size_t kWords = kBytes / sizeof(uint32_t);
  CuStream stream_ = nullptr;
  CuStream other_ = nullptr;
  CuDevicePtr address_ = 0;
};

}  // namespace amem::contract
