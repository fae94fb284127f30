// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "engine/context_memory.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <string>

#include "tests/slowdown.h"

namespace amem {
namespace {

// A context is looked up once in a process: these devices are of no other test.
constexpr int kFirst = 20, kSecond = 21, kWithoutContext = 22, kDevices = 23;
constexpr size_t kLimit = 1984, kLeast = 16;
/// Bytes of local memory for one byte of stack.
constexpr size_t kThreads = 1000;
constexpr size_t kGpuBytes = 10'000'000;

/// What the driver has of each device.
struct Gpu {
  std::atomic<size_t> limit{kLimit};
  std::atomic<size_t> held_by_others{0};
  std::atomic<int> relaxed{0};                ///< limits set in relaxed capture mode
  std::atomic<int> calls{0};                  ///< limits set or refused
  std::promise<void>* long_kernel = nullptr;  ///< lowering the limit waits for it
  std::string failing;
};
Gpu* g_gpus = nullptr;
thread_local int t_device = -1;
thread_local int t_mode = 0;

Gpu& gpu() { return g_gpus[t_device]; }
size_t free_of(const Gpu& gpu) { return kGpuBytes - gpu.held_by_others - gpu.limit * kThreads; }

DriverResult set_limit(int limit, size_t bytes) {
  EXPECT_EQ(limit, kLimitStackSize);
  ++gpu().calls;
  if (gpu().failing == "cuCtxSetLimit") return driver_result::kUnknown;
  if (t_mode == kCaptureModeRelaxed) ++gpu().relaxed;
  const size_t wanted = std::max(bytes, kLeast);
  if (wanted < gpu().limit && gpu().long_kernel != nullptr)
    gpu().long_kernel->get_future().wait_for(std::chrono::seconds(20));
  if (wanted > gpu().limit && (wanted - gpu().limit) * kThreads > free_of(gpu()))
    return driver_result::kOutOfMemory;
  gpu().limit = wanted;
  return driver_result::kSuccess;
}

Driver fake_driver() {
  Driver driver;
  driver.cuDevicePrimaryCtxGetState = [](int device, unsigned*, int* active) {
    *active = device != kWithoutContext;
    return driver_result::kSuccess;
  };
  // The number of a device, plus one, stands for its context.
  driver.cuCtxGetId = [](DriverContext, unsigned long long* id) {
    *id = 1;
    return driver_result::kSuccess;
  };
  driver.cuDevicePrimaryCtxRetain = [](DriverContext* context, int device) {
    *context = reinterpret_cast<DriverContext>(static_cast<uintptr_t>(device) + 1);
    return driver_result::kSuccess;
  };
  driver.cuCtxSetCurrent = [](DriverContext context) {
    t_device = static_cast<int>(reinterpret_cast<uintptr_t>(context)) - 1;
    return driver_result::kSuccess;
  };
  driver.cuThreadExchangeStreamCaptureMode = [](int* mode) {
    std::swap(*mode, t_mode);
    return driver_result::kSuccess;
  };
  driver.cuCtxGetLimit = [](size_t* bytes, int limit) {
    EXPECT_EQ(limit, kLimitStackSize);
    if (gpu().failing == "cuCtxGetLimit") return driver_result::kUnknown;
    *bytes = gpu().limit;
    return driver_result::kSuccess;
  };
  driver.cuCtxSetLimit = set_limit;
  driver.cuMemGetInfo_v2 = [](size_t* free, size_t* total) {
    if (gpu().failing == "cuMemGetInfo") return driver_result::kUnknown;
    *free = free_of(gpu());
    *total = kGpuBytes;
    return driver_result::kSuccess;
  };
  return driver;
}

class ContextMemoryTest : public testing::Test {
 protected:
  using Bytes = std::map<int, size_t>;

  ContextMemoryTest() { g_gpus = gpus_; }

  static Deadline patience() { return Deadline::after_ms(20000); }
  static Deadline soon() { return Deadline::after_ms(20 * kSlowdown); }
  Status trim(const std::vector<int>& devices = {kFirst, kSecond}) {
    return memory_.trim(devices, patience());
  }

  static constexpr size_t kReturned = (kLimit - kLeast) * kThreads;
  Gpu gpus_[kDevices];
  const Driver driver_ = fake_driver();
  ExitFlag exiting_;
  ContextMemory memory_{driver_, exiting_};
};

TEST_F(ContextMemoryTest, IsReturnedAndTakenAgain) {
  ASSERT_TRUE(trim().ok());
  EXPECT_EQ(memory_.returned_bytes(), (Bytes{{kFirst, kReturned}, {kSecond, kReturned}}));
  for (const int device : {kFirst, kSecond}) EXPECT_EQ(gpus_[device].limit, kLeast);

  ASSERT_TRUE(memory_.restore(patience()).ok());
  EXPECT_EQ(memory_.returned_bytes(), Bytes());
  for (const int device : {kFirst, kSecond}) {
    EXPECT_EQ(gpus_[device].limit, kLimit);
    EXPECT_EQ(gpus_[device].relaxed, 2) << "captures of the application must not be disturbed";
  }
}

TEST_F(ContextMemoryTest, BothCanBeRepeated) {
  ASSERT_TRUE(memory_.restore(patience()).ok());
  ASSERT_TRUE(trim({kFirst}).ok());
  ASSERT_TRUE(trim().ok());
  EXPECT_EQ(gpus_[kFirst].calls, 1);
  EXPECT_EQ(memory_.returned_bytes(), (Bytes{{kFirst, kReturned}, {kSecond, kReturned}}));

  ASSERT_TRUE(memory_.restore(patience()).ok());
  ASSERT_TRUE(memory_.restore(patience()).ok());
  EXPECT_EQ(gpus_[kFirst].limit, kLimit) << "the limit of the first trim() is the one";
  EXPECT_EQ(gpus_[kFirst].calls, 2);
}

TEST_F(ContextMemoryTest, DeviceWithoutContextHasNone) {
  const Status trimmed = trim({kFirst, kWithoutContext});

  EXPECT_TRUE(trimmed.ok()) << trimmed.error().message;
  EXPECT_EQ(memory_.returned_bytes(), (Bytes{{kFirst, kReturned}}));
  EXPECT_TRUE(memory_.restore(patience()).ok());
}

TEST_F(ContextMemoryTest, LimitThatALaunchHasRaisedSinceStays) {
  ASSERT_TRUE(trim({kFirst}).ok());
  gpus_[kFirst].limit = 4000;

  ASSERT_TRUE(memory_.restore(patience()).ok());

  EXPECT_EQ(gpus_[kFirst].limit, 4000u);
}

TEST_F(ContextMemoryTest, DoesNotWaitForALongKernelBeyondTheDeadline) {
  std::promise<void> kernel_ends;
  gpus_[kFirst].long_kernel = &kernel_ends;

  const Status trimmed = memory_.trim({kFirst, kSecond}, soon());

  EXPECT_TRUE(trimmed.ok()) << trimmed.error().message;
  EXPECT_EQ(memory_.returned_bytes(), (Bytes{{kFirst, 0}, {kSecond, kReturned}}));

  const Status early = memory_.restore(soon());
  ASSERT_FALSE(early.ok());
  EXPECT_EQ(early.error().kind, ErrorKind::timeout);
  EXPECT_TRUE(early.error().message.starts_with("device 20 has not completed cuCtxSetLimit()"))
      << early.error().message;
  EXPECT_EQ(memory_.returned_bytes().at(kFirst), 0u);

  std::future<Status> restored =
      std::async(std::launch::async, [&] { return memory_.restore(patience()); });
  kernel_ends.set_value();
  EXPECT_TRUE(restored.get().ok());
  EXPECT_EQ(memory_.returned_bytes(), Bytes());
  for (const int device : {kFirst, kSecond}) EXPECT_EQ(gpus_[device].limit, kLimit);
}

TEST_F(ContextMemoryTest, CallThatEndsLateIsFoundByTheNextTrim) {
  std::promise<void> kernel_ends;
  gpus_[kFirst].long_kernel = &kernel_ends;
  ASSERT_TRUE(memory_.trim({kFirst}, soon()).ok());
  kernel_ends.set_value();

  ASSERT_TRUE(trim({kFirst}).ok());

  EXPECT_EQ(memory_.returned_bytes(), (Bytes{{kFirst, kReturned}}));
  EXPECT_EQ(gpus_[kFirst].calls, 1);
}

TEST_F(ContextMemoryTest, LackOfRoomIsAnErrorAndRestoreCanBeRepeated) {
  ASSERT_TRUE(trim().ok());
  gpus_[kSecond].held_by_others = free_of(gpus_[kSecond]);

  const Status full = memory_.restore(patience());

  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.error().kind, ErrorKind::driver);
  EXPECT_EQ(full.error().code, driver_result::kOutOfMemory);
  EXPECT_NE(full.error().message.find("cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1984) on device 21"),
            std::string::npos)
      << full.error().message;
  EXPECT_EQ(memory_.returned_bytes(), (Bytes{{kSecond, kReturned}})) << "the first is back";
  gpus_[kSecond].held_by_others = 0;
  EXPECT_TRUE(memory_.restore(patience()).ok());
  EXPECT_EQ(gpus_[kSecond].limit, kLimit);
}

TEST_F(ContextMemoryTest, DeviceWhoseCallFailsKeepsIts) {
  for (const char* function : {"cuCtxGetLimit", "cuCtxSetLimit"}) {
    gpus_[kFirst].failing = function;

    const Status failed = trim();

    ASSERT_FALSE(failed.ok());
    EXPECT_NE(failed.error().message.find(function), std::string::npos) << failed.error().message;
    EXPECT_EQ(memory_.returned_bytes(), (Bytes{{kSecond, kReturned}}));
    gpus_[kFirst].failing.clear();
    EXPECT_TRUE(memory_.restore(patience()).ok());
    for (const int device : {kFirst, kSecond}) EXPECT_EQ(gpus_[device].limit, kLimit);
  }
}

TEST_F(ContextMemoryTest, FailedRestoreCanBeRepeated) {
  for (const char* function : {"cuCtxGetLimit", "cuCtxSetLimit"}) {
    ASSERT_TRUE(trim().ok());
    gpus_[kFirst].failing = function;

    const Status failed = memory_.restore(patience());

    ASSERT_FALSE(failed.ok());
    EXPECT_NE(failed.error().message.find(function), std::string::npos) << failed.error().message;
    EXPECT_EQ(memory_.returned_bytes().at(kFirst), kReturned);
    gpus_[kFirst].failing.clear();
    EXPECT_TRUE(memory_.restore(patience()).ok());
    for (const int device : {kFirst, kSecond}) EXPECT_EQ(gpus_[device].limit, kLimit);
  }
}

TEST_F(ContextMemoryTest, DriverThatDoesNotTellFreeMemoryIsNoError) {
  gpus_[kFirst].failing = "cuMemGetInfo";

  EXPECT_TRUE(trim({kFirst}).ok());

  EXPECT_EQ(memory_.returned_bytes(), (Bytes{{kFirst, 0}}));
  EXPECT_TRUE(memory_.restore(patience()).ok());
  EXPECT_EQ(gpus_[kFirst].limit, kLimit);
}

}  // namespace
}  // namespace amem
