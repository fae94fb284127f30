// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// What each call does to a capture, by the mode of the capture and the thread that calls.
#include <functional>
#include <string>
#include <tuple>

#include "tests/contract/capture_case.h"

namespace amem::contract {
namespace {

const CuStream kLegacyStream = reinterpret_cast<CuStream>(1);  // CU_STREAM_LEGACY

enum class Caller { kCapturing, kCapturingRelaxed, kOther, kOtherRelaxed };

class CaptureRules : public CaptureCase,
                     public testing::WithParamInterface<std::tuple<int, Caller>> {
 protected:
  static int mode() { return std::get<0>(GetParam()); }
  static Caller caller() { return std::get<1>(GetParam()); }

  // A capture refuses "unsafe" calls of its own thread unless it is relaxed, and those of other
  // threads if it is global; a relaxed thread is free to make them (CUDA Driver API,
  // cuThreadExchangeStreamCaptureMode).
  static bool unsafe_calls_are_refused() {
    if (caller() == Caller::kCapturing) return mode() != kCaptureRelaxed;
    return caller() == Caller::kOther && mode() == kCaptureGlobal;
  }

  void call(const std::function<void()>& body) {
    switch (caller()) {
      case Caller::kCapturing:
        return body();
      case Caller::kCapturingRelaxed: {
        int exchanged = kCaptureRelaxed;
        ASSERT_EQ(kSuccess, driver().cuThreadExchangeStreamCaptureMode(&exchanged));
        body();
        ASSERT_EQ(kSuccess, driver().cuThreadExchangeStreamCaptureMode(&exchanged));
        return;
      }
      case Caller::kOther:
        return in_thread(kCaptureGlobal, body);
      case Caller::kOtherRelaxed:
        return in_thread(kCaptureRelaxed, body);
    }
  }

  // Captures, makes the call, and ends the capture.
  void expect_unsafe(const std::function<CuResult()>& unsafe) {
    begin(mode());
    call([&] {
      EXPECT_EQ(unsafe_calls_are_refused() ? kErrorStreamCaptureUnsupported : kSuccess, unsafe());
    });
    unsafe_calls_are_refused() ? end_spoilt() : end_well();
  }

  void expect_allowed(const std::function<CuResult()>& allowed) {
    begin(mode());
    call([&] { EXPECT_EQ(kSuccess, allowed()); });
    end_well();
  }

  // Page-aligned memory of the process.
  void* page() {
    return reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(storage_) + kPageBytes - 1) &
                                   ~uintptr_t{kPageBytes - 1});
  }

  static constexpr size_t kPageBytes = size_t{64} << 10;  // of all systems
  char storage_[2 * kPageBytes] = {};
};

TEST_P(CaptureRules, SynchronizingTheContextAlwaysSpoilsIt) {
  begin(mode());
  call([] { EXPECT_EQ(kErrorStreamCaptureUnsupported, driver().cuCtxSynchronize()); });
  end_spoilt();
}

TEST_P(CaptureRules, SynchronizingAnotherStreamIsUnsafe) {
  expect_unsafe([this] { return driver().cuStreamSynchronize(other_); });
}

TEST_P(CaptureRules, RegisteringMemoryIsUnsafe) {
  expect_unsafe([this] { return driver().cuMemHostRegister(page(), kPageBytes, 0); });
  EXPECT_EQ(unsafe_calls_are_refused() ? kErrorHostMemoryNotRegistered : kSuccess,
            driver().cuMemHostUnregister(page()));
}

TEST_P(CaptureRules, UnregisteringMemoryIsUnsafe) {
  ASSERT_EQ(kSuccess, driver().cuMemHostRegister(page(), kPageBytes, 0));
  expect_unsafe([this] { return driver().cuMemHostUnregister(page()); });
  if (unsafe_calls_are_refused()) {
    EXPECT_EQ(kSuccess, driver().cuMemHostUnregister(page()));
  }
}

TEST_P(CaptureRules, FreeingPinnedMemoryIsUnsafe) {
  void* pinned = nullptr;
  ASSERT_EQ(kSuccess, driver().cuMemHostAlloc(&pinned, kPageBytes, 0));
  expect_unsafe([pinned] { return driver().cuMemFreeHost(pinned); });
  if (unsafe_calls_are_refused()) {
    EXPECT_EQ(kSuccess, driver().cuMemFreeHost(pinned));
  }
}

TEST_P(CaptureRules, FreeingPlainMemoryIsUnsafe) {
  CuDevicePtr address = 0;
  ASSERT_EQ(kSuccess, driver().cuMemAlloc(&address, granularity()));
  expect_unsafe([address] { return driver().cuMemFree(address); });
  if (unsafe_calls_are_refused()) {
    EXPECT_EQ(kSuccess, driver().cuMemFree(address));
  }
}

TEST_P(CaptureRules, CopyingInAnotherStreamIsAllowed) {
  void* pinned = nullptr;
  ASSERT_EQ(kSuccess, driver().cuMemHostAlloc(&pinned, kBytes, 0));
  expect_allowed([&] { return driver().cuMemcpyDtoHAsync(pinned, address_, kBytes, other_); });
  EXPECT_EQ(kSuccess, driver().cuStreamSynchronize(other_));
  EXPECT_EQ(kSuccess, driver().cuMemFreeHost(pinned));
}

TEST_P(CaptureRules, TakingMemoryAwayAndPuttingItBackIsAllowed) {
  const CuDevicePtr address = allocate(granularity());
  const CuMemHandle exported = create(granularity());
  int number = -1;
  ASSERT_EQ(kSuccess,
            driver().cuMemExportToShareableHandle(&number, exported, kHandleTypePosixFd, 0));
  const UniqueFd fd(number);
  begin(mode());
  call([&] {
    EXPECT_EQ(kSuccess, driver().cuMemUnmap(address, granularity()));
    const CuMemHandle fresh = create(granularity());
    map(address, granularity(), fresh);
    EXPECT_EQ(kSuccess, driver().cuMemUnmap(address, granularity()));
    EXPECT_EQ(kSuccess, driver().cuMemRelease(fresh));
    CuMemHandle imported = 0;
    EXPECT_EQ(kSuccess, driver().cuMemImportFromShareableHandle(
                            &imported, reinterpret_cast<void*>(static_cast<intptr_t>(number)),
                            kHandleTypePosixFd));
    map(address, granularity(), imported);
    EXPECT_EQ(kSuccess, driver().cuMemRelease(imported));
  });
  end_well();
  EXPECT_EQ(kSuccess, driver().cuMemRelease(exported));
  free(address, granularity());
}

TEST_P(CaptureRules, AskingIsAllowed) {
  begin(mode());
  call([&] {
    int status = -1;
    unsigned flags = 0;
    int active = 0;
    free_bytes();
    for (const CuStream stream : {other_, kLegacyStream}) {
      EXPECT_EQ(kSuccess, driver().cuStreamIsCapturing(stream, &status));
      EXPECT_EQ(kCaptureStatusNone, status);
    }
    EXPECT_EQ(kSuccess, driver().cuDevicePrimaryCtxGetState(0, &flags, &active));
    EXPECT_EQ(1, active);
  });
  end_well();
}

TEST_P(CaptureRules, MakingAStreamIsAllowed) {
  CuStream fresh = nullptr;
  expect_allowed([&] { return driver().cuStreamCreate(&fresh, kStreamNonBlocking); });
  EXPECT_EQ(kSuccess, driver().cuStreamDestroy(fresh));
}

std::string situation(const testing::TestParamInfo<std::tuple<int, Caller>>& info) {
  constexpr const char* kModes[] = {"Global", "ThreadLocal", "Relaxed"};
  constexpr const char* kCallers[] = {"FromItsThread", "FromItsThreadRelaxed", "FromAnotherThread",
                                      "FromARelaxedThread"};
  return std::string(kModes[std::get<0>(info.param)]) +
         kCallers[static_cast<size_t>(std::get<1>(info.param))];
}

INSTANTIATE_TEST_SUITE_P(
    OfACapture, CaptureRules,
    testing::Combine(testing::Values(kCaptureGlobal, kCaptureThreadLocal, kCaptureRelaxed),
                     testing::Values(Caller::kCapturing, Caller::kCapturingRelaxed, Caller::kOther,
                                     Caller::kOtherRelaxed)),
    situation);

}  // namespace
}  // namespace amem::contract
