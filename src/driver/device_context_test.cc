// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "driver/device_work.h"

namespace amem {
namespace {

constexpr int kCaptureModeGlobal = 0;

DriverContext context_of(int device) {
  return reinterpret_cast<DriverContext>(uintptr_t{0x1000} + static_cast<uintptr_t>(device));
}

/// What the driver knows of the calling thread, and of the process.
thread_local DriverContext t_current = nullptr;
thread_local int t_capture_mode = kCaptureModeGlobal;
struct {
  std::map<int, int> retained;  ///< how often, by device
  bool active;
  unsigned long long id;  ///< of the contexts; 0: they have ended
  DriverResult state_result, retain_result, set_result, mode_result;
} g_driver;

class InDeviceContext : public testing::Test {
 protected:
  InDeviceContext() {
    g_driver = {{}, true, 1, 0, 0, 0, 0};
    t_current = nullptr;
    t_capture_mode = kCaptureModeGlobal;
    driver_.cuDevicePrimaryCtxGetState = [](int, unsigned*, int* active) {
      *active = g_driver.active;
      return g_driver.state_result;
    };
    driver_.cuDevicePrimaryCtxRetain = [](DriverContext* context, int device) {
      if (g_driver.retain_result != driver_result::kSuccess) return g_driver.retain_result;
      ++g_driver.retained[device];
      *context = context_of(device);
      return driver_result::kSuccess;
    };
    driver_.cuCtxGetId = [](DriverContext, unsigned long long* id) {
      *id = g_driver.id;
      return g_driver.id != 0 ? driver_result::kSuccess : driver_result::kContextIsDestroyed;
    };
    driver_.cuCtxSetCurrent = [](DriverContext context) {
      if (g_driver.set_result == driver_result::kSuccess) t_current = context;
      return g_driver.set_result;
    };
    driver_.cuThreadExchangeStreamCaptureMode = [](int* mode) {
      if (g_driver.mode_result == driver_result::kSuccess) std::swap(*mode, t_capture_mode);
      return g_driver.mode_result;
    };
  }
  /// Primary contexts are kept for the life of the process, so every test has devices of its own.
  static int fresh_device() {
    static int next = 0;
    EXPECT_LT(next, 64) << "repeated too often in one process";
    return next++;
  }
  /// Runs a job that counts.
  Status count(int device) {
    return in_device_context(driver_, device, [this] {
      ++ran_;
      return ok_status();
    });
  }
  /// The driver fails with kUnknown at what `result` stands for, in the call that `text` names.
  void expect_failure_at(DriverResult& result, const char* text) {
    const int device = fresh_device(), before = ran_;
    result = driver_result::kUnknown;
    const Status failed = count(device);
    ASSERT_FALSE(failed.ok()) << text;
    EXPECT_EQ(failed.error().kind, ErrorKind::driver);
    EXPECT_EQ(failed.error().code, driver_result::kUnknown);
    EXPECT_EQ(failed.error().message.find(text), 0u) << failed.error().message;
    EXPECT_EQ(ran_, before);

    result = driver_result::kSuccess;
    EXPECT_TRUE(count(device).ok()) << "the failure was remembered";
    EXPECT_EQ(ran_, before + 1);
    EXPECT_EQ(g_driver.retained[device], 1);
  }

  Driver driver_;
  int ran_ = 0;
};

TEST_F(InDeviceContext, ContextThatEndsIsRetainedAgainWhenThereIsOne) {
  const int device = fresh_device();
  EXPECT_EQ(primary_context_id(device), 0u);
  ASSERT_TRUE(count(device).ok());
  EXPECT_EQ(primary_context_id(device), 1u);

  g_driver.id = 0;
  g_driver.active = false;
  const Status failed = count(device);

  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().kind, ErrorKind::unsupported) << failed.error().message;
  g_driver.id = 2;
  g_driver.active = true;
  EXPECT_TRUE(count(device).ok());
  EXPECT_EQ(primary_context_id(device), 2u);
}

TEST_F(InDeviceContext, JobRunsInThePrimaryContextAndRelaxed) {
  const int device = fresh_device();
  DriverContext context = nullptr;
  int mode = kCaptureModeGlobal;

  const Status status = in_device_context(driver_, device, [&] {
    context = t_current;
    mode = t_capture_mode;
    return ok_status();
  });

  EXPECT_TRUE(status.ok());
  EXPECT_EQ(context, context_of(device));
  EXPECT_EQ(mode, kCaptureModeRelaxed);
}

// A thread of ours may serve a device again, and always relaxed: the mode is set, not toggled.
TEST_F(InDeviceContext, EveryJobRunsInTheContextOfItsDevice) {
  const int first = fresh_device(), second = fresh_device();
  for (const int device : {first, second, second, first}) {
    const Status status = in_device_context(driver_, device, [&] {
      EXPECT_EQ(t_current, context_of(device));
      EXPECT_EQ(t_capture_mode, kCaptureModeRelaxed);
      return ok_status();
    });
    EXPECT_TRUE(status.ok());
  }
}

TEST_F(InDeviceContext, ErrorOfTheJobIsPassedOn) {
  const Status status =
      in_device_context(driver_, fresh_device(), [] { return os_error(12, "the job"); });

  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::os);
  EXPECT_EQ(status.error().code, 12);
}

// The reference is never given back, so one for each use would be a leak.
TEST_F(InDeviceContext, PrimaryContextIsRetainedOnceHoweverOftenItIsUsed) {
  const int often = fresh_device(), once = fresh_device();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(count(often).ok());
  std::thread([&] { EXPECT_TRUE(count(often).ok()); }).join();
  EXPECT_TRUE(count(once).ok());

  EXPECT_EQ(ran_, 5);
  EXPECT_EQ(g_driver.retained, (std::map<int, int>{{often, 1}, {once, 1}}));
}

TEST_F(InDeviceContext, InactiveContextIsNotCreated) {
  const int device = fresh_device();
  g_driver.active = false;

  const Status status = count(device);

  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::unsupported);
  EXPECT_EQ(status.error().message,
            "device " + std::to_string(device) + " has no active primary context");
  EXPECT_EQ(ran_, 0);
  EXPECT_TRUE(g_driver.retained.empty());

  g_driver.active = true;
  EXPECT_TRUE(count(device).ok());
}

// Not the same as having no context: there may be work that nobody has waited for.
TEST_F(InDeviceContext, FailureOfTheDriverIsReportedAndNotRemembered) {
  expect_failure_at(g_driver.state_result, "cuDevicePrimaryCtxGetState(");
  expect_failure_at(g_driver.retain_result, "cuDevicePrimaryCtxRetain(");
  expect_failure_at(g_driver.set_result, "cuCtxSetCurrent(");
  expect_failure_at(g_driver.mode_result, "cuThreadExchangeStreamCaptureMode(");
}

TEST_F(InDeviceContext, DeviceThatCannotBeIsRefused) {
  for (const int device : {-1, 64, 1 << 30}) {
    const Status status = count(device);
    ASSERT_FALSE(status.ok()) << device;
    EXPECT_EQ(status.error().kind, ErrorKind::unsupported);
  }
  EXPECT_EQ(ran_, 0);
  EXPECT_TRUE(g_driver.retained.empty());
}

}  // namespace
}  // namespace amem
