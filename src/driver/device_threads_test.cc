// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "driver/device_threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <future>

namespace amem {
namespace {

// Devices are asked in order of their numbers.
constexpr int kWithoutContext = 1, kBusy = 2, kIdle = 3;

constexpr std::chrono::seconds kPatience(20);
Deadline patience() { return Deadline::after_ms(20000); }

/// The number of a device stands for its context.
thread_local DriverContext t_current = nullptr;
int current_device() { return static_cast<int>(reinterpret_cast<uintptr_t>(t_current)); }

Driver fake_driver() {
  Driver driver;
  driver.cuDevicePrimaryCtxGetState = [](int device, unsigned*, int* active) {
    *active = device != kWithoutContext;
    return driver_result::kSuccess;
  };
  driver.cuCtxGetId = [](DriverContext, unsigned long long* id) {
    *id = 1;
    return driver_result::kSuccess;
  };
  driver.cuDevicePrimaryCtxRetain = [](DriverContext* context, int device) {
    *context = reinterpret_cast<DriverContext>(static_cast<uintptr_t>(device));
    return driver_result::kSuccess;
  };
  driver.cuCtxSetCurrent = [](DriverContext context) {
    t_current = context;
    return driver_result::kSuccess;
  };
  driver.cuThreadExchangeStreamCaptureMode = [](int*) { return driver_result::kSuccess; };
  return driver;
}

class DeviceThreadsTest : public testing::Test {
 protected:
  const Driver driver_ = fake_driver();
  ExitFlag exiting_;
  DeviceThreads threads_{driver_, exiting_};
};

TEST_F(DeviceThreadsTest, JobsRunInTheirDevicesContextsSideBySide) {
  std::promise<int> of_busy, of_idle;
  // Each waits for the other, so one after the other would not do.
  const auto meet = [](std::promise<int>& own, std::promise<int>& others, int other) -> Status {
    own.set_value(current_device());
    std::future<int> there = others.get_future();
    if (there.wait_for(kPatience) != std::future_status::ready)
      return os_error(ETIME, "device %d does not come", other);
    return there.get() == other ? ok_status() : os_error(EINVAL, "context of device %d", other);
  };

  const Status status = threads_.run({{kBusy, [&] { return meet(of_busy, of_idle, kIdle); }},
                                      {kIdle, [&] { return meet(of_idle, of_busy, kBusy); }}},
                                     "the test", patience());

  EXPECT_TRUE(status.ok()) << status.error().message;
}

TEST_F(DeviceThreadsTest, FirstErrorInOrderOfDevicesIsReported) {
  std::map<int, DeviceThreads::Job> jobs;
  jobs[kIdle] = [] { return os_error(2, "second"); };
  jobs[kBusy] = [] { return os_error(1, "first"); };

  const Status status = threads_.run(std::move(jobs), "the test", patience());

  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, 1);
}

// They own what they touch, and each runs after what was asked of the thread before.
TEST_F(DeviceThreadsTest, JobsGoOnInTheirOrderWhenNobodyWaitsAnyMore) {
  auto may_end = std::make_shared<std::promise<void>>();
  auto order = std::make_shared<std::vector<int>>();
  const auto run = [&](int number, long timeout_ms) {
    const auto job = [may_end, order, number] {
      if (number == 1) may_end->get_future().wait_for(kPatience);
      order->push_back(number);
      return ok_status();
    };
    return threads_.run({{kIdle, job}}, "the test", Deadline::after_ms(timeout_ms));
  };

  for (const int number : {1, 2, 3}) {
    const Status late = run(number, 1);
    ASSERT_FALSE(late.ok());
    EXPECT_EQ(late.error().kind, ErrorKind::timeout);
    EXPECT_EQ(late.error().message, "device 3 has not completed the test");
  }
  may_end->set_value();

  EXPECT_TRUE(run(4, 20000).ok());
  EXPECT_EQ(*order, (std::vector<int>{1, 2, 3, 4}));
}

TEST_F(DeviceThreadsTest, JobNeedsAContext) {
  std::atomic<bool> ran = false;

  const Status status = threads_.run({{kWithoutContext, [&] { return ran = true, ok_status(); }}},
                                     "the test", patience());

  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::unsupported);
  EXPECT_FALSE(ran);
}

TEST_F(DeviceThreadsTest, NoJobBeginsOnceExitHasBegun) {
  auto may_end = std::make_shared<std::promise<void>>();
  auto ran = std::make_shared<std::atomic<int>>(0);
  const auto blocked = [may_end] {
    may_end->get_future().wait_for(kPatience);
    return ok_status();
  };
  const auto counted = [ran] { return ++*ran, ok_status(); };
  ASSERT_FALSE(threads_.run({{kBusy, blocked}}, "the test", Deadline::after_ms(1)).ok());
  ASSERT_FALSE(threads_.run({{kBusy, counted}}, "the test", Deadline::after_ms(1)).ok());

  exiting_.raise();
  may_end->set_value();

  const Status late = threads_.run({{kBusy, counted}}, "the test", patience());
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().kind, ErrorKind::misuse);
  EXPECT_TRUE(late.error().message.starts_with("exit() has begun")) << late.error().message;
  EXPECT_EQ(*ran, 0) << "the one that was asked for before has run";
}

/// Says when the thread that set it ends.
struct AtThreadEnd {
  std::promise<void>* says = nullptr;
  ~AtThreadEnd() {
    if (says != nullptr) says->set_value();
  }
};
thread_local AtThreadEnd t_end;

TEST_F(DeviceThreadsTest, DestructorWaitsForTheRunningJobAndDropsTheOthers) {
  std::promise<void> idle_ended, runs, may_end;
  std::atomic<bool> ended = false, other_ran = false;
  auto threads = std::make_unique<DeviceThreads>(driver_, exiting_);
  const auto run = [&](int device, DeviceThreads::Job job, Deadline deadline) {
    return threads->run({{device, std::move(job)}}, "the test", deadline).ok();
  };
  const auto blocked = [&] {
    runs.set_value();
    may_end.get_future().wait_for(kPatience);
    return ended = true, ok_status();
  };
  ASSERT_TRUE(run(
      kIdle, [&] { return t_end.says = &idle_ended, ok_status(); }, patience()));
  ASSERT_FALSE(run(kBusy, blocked, Deadline::after_ms(1)));
  ASSERT_EQ(runs.get_future().wait_for(kPatience), std::future_status::ready);
  ASSERT_FALSE(run(
      kBusy, [&] { return other_ran = true, ok_status(); }, Deadline::after_ms(1)));

  auto destructor = std::async(std::launch::async, [&] {
    threads.reset();
    return ended.load();
  });
  // The idle thread ends when the destructor has told all to stop.
  EXPECT_EQ(idle_ended.get_future().wait_for(kPatience), std::future_status::ready);
  may_end.set_value();

  EXPECT_TRUE(destructor.get());
  EXPECT_FALSE(other_ran);
}

}  // namespace
}  // namespace amem
