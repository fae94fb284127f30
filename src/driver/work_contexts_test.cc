// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Which contexts of a device are waited for, and how.
#include "driver/work_contexts.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>

#include "driver/device_work.h"

namespace amem {
namespace {

constexpr int kDevice = 40;  // of no other test: primary contexts are retained for good
char g_names[80];
DriverContext context_at(int i) { return reinterpret_cast<DriverContext>(&g_names[i]); }
DriverContext primary() { return context_at(0); }

constexpr int kGlobalMode = 0;  // CU_STREAM_CAPTURE_MODE_GLOBAL, the default

/// What the driver was asked, and how it behaves. Of one test, as the list of contexts is.
struct Seen {
  DriverContext current = nullptr;
  std::string calls;  ///< of waiting: 'f' freed in, 's' synchronized, and the number of the context
  bool freeing_waits = true;
  bool test_work_done = false;
  DriverContext destroyed = nullptr;
  int capture_mode = kGlobalMode;  ///< of the calling thread
  int freeing_mode = kGlobalMode;  ///< in the last call that freed
};
Seen g_seen;

void note_call(char call) {
  g_seen.calls += call;
  g_seen.calls += std::to_string(reinterpret_cast<char*>(g_seen.current) - g_names) + " ";
}

Driver fake_driver() {
  Driver driver;
  driver.cuGetErrorName = [](DriverResult, const char**) { return driver_result::kInvalidValue; };
  driver.cuDevicePrimaryCtxGetState = [](int device, unsigned*, int* active) {
    *active = device == kDevice;
    return driver_result::kSuccess;
  };
  driver.cuCtxGetId = [](DriverContext, unsigned long long* id) {
    *id = 1;
    return driver_result::kSuccess;
  };
  driver.cuDevicePrimaryCtxRetain = [](DriverContext* context, int) {
    *context = primary();
    return driver_result::kSuccess;
  };
  driver.cuCtxSetCurrent = [](DriverContext context) {
    EXPECT_TRUE(context == nullptr || context != g_seen.destroyed) << "the process would crash";
    g_seen.current = context;
    return driver_result::kSuccess;
  };
  driver.cuCtxGetCurrent = [](DriverContext* context) {
    *context = g_seen.current;
    return driver_result::kSuccess;
  };
  driver.cuCtxGetApiVersion = [](DriverContext context, unsigned*) {
    return context == g_seen.destroyed ? driver_result::kInvalidContext : driver_result::kSuccess;
  };
  driver.cuCtxGetDevice = [](int* device) { return *device = kDevice, driver_result::kSuccess; };
  driver.cuThreadExchangeStreamCaptureMode = [](int* mode) {
    std::swap(*mode, g_seen.capture_mode);
    return driver_result::kSuccess;
  };
  driver.cuCtxSynchronize = [] { return note_call('s'), driver_result::kSuccess; };
  driver.cuMemHostAlloc = [](void** address, size_t, unsigned) {
    *address = &g_names[78];
    return driver_result::kSuccess;
  };
  driver.cuMemFreeHost = [](void*) {
    note_call('f');
    g_seen.freeing_mode = g_seen.capture_mode;
    g_seen.test_work_done = g_seen.freeing_waits;
    return driver_result::kSuccess;
  };
  driver.cuStreamCreate = [](DriverStream* stream, unsigned) {
    *stream = reinterpret_cast<DriverStream>(&g_names[79]);
    return driver_result::kSuccess;
  };
  driver.cuStreamDestroy_v2 = [](DriverStream) { return driver_result::kSuccess; };
  driver.cuStreamSynchronize = [](DriverStream) { return driver_result::kSuccess; };
  driver.cuLaunchHostFunc = [](DriverStream, void (*)(void*), void*) {
    return driver_result::kSuccess;
  };
  driver.cuStreamQuery = [](DriverStream) {
    return g_seen.test_work_done ? driver_result::kSuccess : driver_result::kNotReady;
  };
  return driver;
}

/// The lists are the process's: what a test has noted is forgotten at its end.
class WorkContexts : public testing::Test {
 protected:
  WorkContexts() { g_seen = {}; }
  ~WorkContexts() override {
    for (int i = 0; i < 80; ++i) forget_work_context(context_at(i));
  }
  void launch_in(int context) {
    g_seen.current = context_at(context);
    note_work_context(driver_);
  }
  /// The calls by which the device was waited for.
  std::string wait(int device = kDevice) {
    g_seen.calls.clear();
    const Status status = in_device_context(
        driver_, device, [&] { return wait_for_device(driver_, exiting_, device); });
    EXPECT_TRUE(status.ok() || device != kDevice) << status.error().message;
    error_ = status.ok() ? "" : status.error().message;
    return g_seen.calls;
  }

  const Driver driver_ = fake_driver();
  ExitFlag exiting_;
  std::string error_;
};

TEST_F(WorkContexts, ThatTheApplicationHasMadeAreWaitedForToo) {
  for (const int context : {0, 1, 2, 1}) launch_in(context);

  EXPECT_EQ(wait(), "f0 f1 f2 ");
  EXPECT_EQ(g_seen.current, primary()) << "the thread's job goes on in another context";
}

TEST_F(WorkContexts, AreWaitedForOnAThreadOfTheApplicationWithoutAnEffectOnIt) {
  for (const int context : {0, 1}) launch_in(context);
  const Status waited = visit_device_context(
      driver_, kDevice, [&] { return wait_for_device(driver_, exiting_, kDevice); });
  EXPECT_TRUE(waited.ok());
  EXPECT_EQ(g_seen.calls, "f0 f1 ");
  EXPECT_EQ(g_seen.freeing_mode, kCaptureModeRelaxed) << "captures of other threads would fail";
  EXPECT_EQ(g_seen.capture_mode, kGlobalMode);
  EXPECT_EQ(g_seen.current, context_at(1));
}

TEST_F(WorkContexts, ThatWereDestroyedAreForgotten) {
  for (const int context : {1, 2}) launch_in(context);
  g_seen.destroyed = context_at(1);

  EXPECT_EQ(wait(), "f0 f2 ");
  EXPECT_EQ(work_contexts_of(kDevice), std::vector{context_at(2)});
}

// amem works in the primary one, and makes none.
TEST_F(WorkContexts, WithoutAPrimaryOneAreAnError) {
  Driver driver = driver_;
  driver.cuDevicePrimaryCtxGetState = [](int, unsigned*, int* active) {
    *active = 0;
    return driver_result::kSuccess;
  };
  driver.cuCtxGetDevice = [](int* device) { return *device = kDevice + 1, 0; };
  const auto enter = [&] {
    return in_device_context(driver, kDevice + 1, [] { return ok_status(); });
  };
  EXPECT_EQ(enter().error().kind, ErrorKind::unsupported) << "a device without work";

  g_seen.current = context_at(1);
  note_work_context(driver);

  EXPECT_EQ(enter().error().kind, ErrorKind::misuse);
  EXPECT_NE(enter().error().message.find("in a context of cuCtxCreate()"), std::string::npos);
}

TEST_F(WorkContexts, FreeingThatWaitsIsUsed) {
  EXPECT_EQ(wait(), "f0 ");
  g_seen.freeing_waits = g_seen.test_work_done = false;
  EXPECT_EQ(wait(), "f0 ") << "tested once a process";
}

// The work that tests it would end before it is tested. In a process of its own.
TEST_F(WorkContexts, FreeingThatDoesNotWaitIsNotUsedWhereAllocationsTakeTime) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto waits = [this] {
    g_seen.freeing_waits = false;
    Driver driver = driver_;
    driver.cuMemHostAlloc = [](void** address, size_t, unsigned) {
      g_seen.test_work_done = true;  // what was queued before has ended meanwhile
      *address = &g_names[78];
      return driver_result::kSuccess;
    };
    driver.cuLaunchHostFunc = [](DriverStream, void (*)(void*), void*) {
      g_seen.test_work_done = false;
      return driver_result::kSuccess;
    };
    const Status waited = in_device_context(
        driver, kDevice, [&] { return wait_for_device(driver, exiting_, kDevice); });
    exit(waited.ok() && g_seen.calls == "f0 s0 " ? 0 : 1);
  };
  EXPECT_EXIT(waits(), testing::ExitedWithCode(0), "does not wait when pinned memory is freed");
}

// This thread did not run while the work did: the next wait tests again. In a process of its own.
TEST_F(WorkContexts, FreeingIsNotTestedByWorkThatHasEndedBefore) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto waits = [this] {
    g_seen.freeing_waits = false;
    Driver driver = driver_;
    driver.cuStreamQuery = [](DriverStream) {
      g_seen.test_work_done = !g_seen.test_work_done;
      return g_seen.test_work_done ? driver_result::kSuccess : driver_result::kNotReady;
    };
    const auto wait_once = [&] {
      return in_device_context(driver, kDevice,
                               [&] { return wait_for_device(driver, exiting_, kDevice); });
    };
    const bool first = wait_once().ok();
    driver.cuStreamQuery = driver_.cuStreamQuery;
    g_seen.test_work_done = false;
    exit(first && wait_once().ok() && g_seen.calls == "f0 f0 s0 " ? 0 : 1);
  };
  EXPECT_EXIT(waits(), testing::ExitedWithCode(0), "does not wait when pinned memory is freed");
}

// In a process of its own.
TEST_F(WorkContexts, FreeingThatDoesNotWaitIsNotUsed) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto waits = [this] {
    g_seen.freeing_waits = false;
    launch_in(1);
    const std::string first = wait(), second = wait();
    exit(first == "f0 s0 s1 " && second == "s0 s1 " ? 0 : 1);
  };
  EXPECT_EXIT(waits(), testing::ExitedWithCode(0), "does not wait when pinned memory is freed");
}

}  // namespace
}  // namespace amem
