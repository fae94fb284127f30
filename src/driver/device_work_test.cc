// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Waiting for devices whose work ends when the test says so.
#include "driver/device_work.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <future>
#include <set>
#include <utility>

#include "driver/device_threads.h"

namespace amem {
namespace {

constexpr DriverResult kLaunchFailed = 719;
constexpr int kCaptureModeGlobal = 0;
// Devices are asked in order of their numbers.
constexpr int kWithoutContext = 1, kBusy = 2, kIdle = 3;

Deadline patience() { return Deadline::after_ms(20000); }

/// What a device saw of its drains: calls of cuMemFreeHost.
struct FakeDevice {
  int begun = 0;
  int allowed = 1 << 30;                ///< drains beyond that wait for the device's work
  std::map<int, DriverResult> results;  ///< by number of the drain; success where none is set
  DriverResult alloc_result = driver_result::kSuccess;
  DriverResult stream_result = driver_result::kSuccess;  ///< of waiting for a stream
  std::set<void*> pinned;                                ///< now
  std::function<void()> while_pinning;
  int capture_mode = -1;  ///< of the last caller
  sigset_t blocked{};
};

struct Machine {
  Mutex mutex;
  Condition changed;
  std::map<int, FakeDevice> devices AMEM_GUARDED_BY(mutex);
};
Machine* g_machine = nullptr;

/// The number of a device stands for its context.
thread_local DriverContext t_current = nullptr;
thread_local int t_capture_mode = kCaptureModeGlobal;

int current_device() { return static_cast<int>(reinterpret_cast<uintptr_t>(t_current)); }

DriverResult alloc_pinned(void** address, size_t size_bytes, unsigned) {
  Machine& machine = *g_machine;
  if (t_current == nullptr || size_bytes == 0) return driver_result::kInvalidValue;
  MutexLock lock(machine.mutex);
  FakeDevice& device = machine.devices[current_device()];
  if (device.while_pinning) device.while_pinning();
  if (device.alloc_result != driver_result::kSuccess) return device.alloc_result;
  if (t_capture_mode != kCaptureModeRelaxed) return driver_result::kInvalidValue;
  *address = malloc(size_bytes);
  device.pinned.insert(*address);
  return driver_result::kSuccess;
}

DriverResult free_pinned(void* address) {
  Machine& machine = *g_machine;
  MutexLock lock(machine.mutex);
  FakeDevice& device = machine.devices[current_device()];
  const int number = ++device.begun;
  device.capture_mode = t_capture_mode;
  pthread_sigmask(SIG_SETMASK, nullptr, &device.blocked);
  machine.changed.notify_all();
  machine.changed.wait_until(machine.mutex, patience(), [&]() AMEM_REQUIRES(machine.mutex) {
    return device.allowed >= number;
  });
  const auto result = device.results.find(number);
  if (result != device.results.end()) return result->second;
  if (device.pinned.erase(address) != 1) return driver_result::kInvalidValue;
  free(address);
  return driver_result::kSuccess;
}

DriverResult wait_for_fake_stream(DriverStream) {
  Machine& machine = *g_machine;
  MutexLock lock(machine.mutex);
  return machine.devices[current_device()].stream_result;
}

Driver fake_driver() {
  Driver driver;
  driver.cuGetErrorName = [](DriverResult code, const char** name) {
    *name = code == kLaunchFailed ? "CUDA_ERROR_LAUNCH_FAILED" : nullptr;
    return driver_result::kSuccess;
  };
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
  driver.cuThreadExchangeStreamCaptureMode = [](int* mode) {
    std::swap(*mode, t_capture_mode);
    return driver_result::kSuccess;
  };
  // What tests a driver is tested in work_contexts_test.cc.
  driver.cuStreamCreate = [](DriverStream*, unsigned) { return driver_result::kNotSupported; };
  driver.cuMemHostAlloc = alloc_pinned;
  driver.cuMemFreeHost = free_pinned;
  driver.cuStreamSynchronize = wait_for_fake_stream;
  return driver;
}

class DeviceDrainTest : public testing::Test {
 protected:
  DeviceDrainTest() { g_machine = &machine_; }
  ~DeviceDrainTest() override {
    for (const int device : {kIdle, kBusy}) {
      allow(device, 1 << 30);
      MutexLock lock(machine_.mutex);
      for (void* const address : std::exchange(machine_.devices[device].pinned, {})) free(address);
    }
  }

  /// The device's work lets this many drains end, counted from the first.
  void allow(int device, int drains) {
    MutexLock lock(machine_.mutex);
    machine_.devices[device].allowed = drains;
    machine_.changed.notify_all();
  }
  /// Waits until so many drains have begun; false when that takes too long.
  bool begun(int device, int drains) {
    MutexLock lock(machine_.mutex);
    return machine_.changed.wait_until(
        machine_.mutex, patience(),
        [&]() AMEM_REQUIRES(machine_.mutex) { return machine_.devices[device].begun >= drains; });
  }
  void set_result(int device, int drain, DriverResult result) {
    MutexLock lock(machine_.mutex);
    machine_.devices[device].results[drain] = result;
  }
  void set_stream_result(int device, DriverResult result) {
    MutexLock lock(machine_.mutex);
    machine_.devices[device].stream_result = result;
  }
  /// On the device's thread.
  Status wait_for_stream_of(int device) {
    const auto job = [this, device] {
      return wait_for_stream(driver_, exiting_, device, nullptr, "copying");
    };
    return threads_.run({{device, job}}, "the test", patience());
  }
  FakeDevice seen(int device) {
    MutexLock lock(machine_.mutex);
    return machine_.devices[device];
  }

  Machine machine_;
  const Driver driver_ = fake_driver();
  ExitFlag exiting_;
  DeviceThreads threads_{driver_, exiting_};
};

TEST_F(DeviceDrainTest, NothingToWaitForIsAnsweredAtOnce) {
  EXPECT_TRUE(threads_.drain({}, Deadline::after_ms(0)).ok());
}

TEST_F(DeviceDrainTest, AnswersWhenTheWorkOfAllDevicesIsDone) {
  allow(kBusy, 0);
  auto asker = std::async(std::launch::async, [&] {
    return threads_.drain({kIdle, kBusy}, patience()).ok();
  });
  ASSERT_TRUE(begun(kBusy, 1));

  allow(kBusy, 1);

  EXPECT_TRUE(asker.get());
  EXPECT_EQ(seen(kIdle).begun, 1);
}

TEST_F(DeviceDrainTest, DeadlineNamesTheDeviceThatStillWorks) {
  allow(kBusy, 0);

  const Status status = threads_.drain({kIdle, kBusy}, Deadline::after_ms(50));

  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::timeout);
  EXPECT_EQ(status.error().message, "device 2 has not completed the work that was queued on it");
  EXPECT_TRUE(threads_.drain({kIdle}, patience()).ok()) << "another device's work is in the way";

  allow(kBusy, 1 << 30);
  EXPECT_TRUE(threads_.drain({kBusy}, patience()).ok());
}

TEST_F(DeviceDrainTest, ErrorOfTheDriverIsReportedOnce) {
  set_result(kBusy, 1, kLaunchFailed);

  const Status status = threads_.drain({kBusy}, patience());

  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::driver);
  EXPECT_EQ(status.error().code, kLaunchFailed);
  EXPECT_EQ(
      status.error().message,
      "cuMemFreeHost() to wait for the work of device 2 failed: CUDA_ERROR_LAUNCH_FAILED (719)");
  EXPECT_TRUE(threads_.drain({kBusy}, patience()).ok());
}

TEST_F(DeviceDrainTest, WithoutPinnedMemoryThereIsNoWaiting) {
  {
    MutexLock lock(machine_.mutex);
    machine_.devices[kBusy].alloc_result = kLaunchFailed;
  }

  const Status status = threads_.drain({kBusy}, patience());

  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, kLaunchFailed);
  EXPECT_EQ(status.error().message.find("cuMemHostAlloc()"), 0u) << status.error().message;
  EXPECT_EQ(seen(kBusy).begun, 0);
}

// Whoever waits for two devices looks at the second late, when others may have asked it again.
TEST_F(DeviceDrainTest, ErrorIsNotLostToALaterQuestion) {
  allow(kBusy, 0);
  set_result(kIdle, 1, kLaunchFailed);
  auto asker = std::async(std::launch::async, [&] {
    return threads_.drain({kBusy, kIdle}, patience());
  });
  ASSERT_TRUE(begun(kIdle, 1));

  EXPECT_TRUE(threads_.drain({kIdle}, patience()).ok());
  allow(kBusy, 1);

  const Status status = asker.get();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, kLaunchFailed);
}

// Work may have been queued between the start of a drain and the question.
TEST_F(DeviceDrainTest, DrainStartedBeforeTheQuestionDoesNotAnswerIt) {
  allow(kBusy, 0);
  auto first =
      std::async(std::launch::async, [&] { return threads_.drain({kBusy}, patience()).ok(); });
  ASSERT_TRUE(begun(kBusy, 1));
  // When the idle device drains, the busy one has been asked.
  auto first_drain_ends = std::async(std::launch::async, [&] {
    const bool asked = begun(kIdle, 1);
    allow(kBusy, 1);
    return asked;
  });

  const Status second = threads_.drain({kIdle, kBusy}, Deadline::after_ms(200));

  EXPECT_FALSE(second.ok()) << "answered by the first drain";
  EXPECT_TRUE(first_drain_ends.get());
  EXPECT_TRUE(first.get());
  EXPECT_TRUE(begun(kBusy, 2)) << "no drain for the second question";
}

TEST_F(DeviceDrainTest, DeviceWithoutAContextHasNoWork) {
  EXPECT_TRUE(threads_.drain({kWithoutContext}, patience()).ok());
  EXPECT_EQ(seen(kWithoutContext).begun, 0);

  allow(kBusy, 0);
  const Status status = threads_.drain({kWithoutContext, kBusy}, Deadline::after_ms(20));
  ASSERT_FALSE(status.ok()) << "the other device was not waited for";
  EXPECT_EQ(status.error().kind, ErrorKind::timeout);
}

TEST_F(DeviceDrainTest, ExitThatBeginsMeanwhileEndsItWithoutAnotherCall) {
  {
    MutexLock lock(machine_.mutex);
    machine_.devices[kIdle].while_pinning = [this] { exiting_.raise(); };
  }

  const Status status = threads_.drain({kIdle}, patience());

  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::misuse);
  EXPECT_EQ(seen(kIdle).begun, 0);
}

// Its context is there, and may have work in it.
TEST_F(DeviceDrainTest, ContextThatCannotBeEnteredIsNoEmptyOne) {
  Driver broken = driver_;
  broken.cuCtxSetCurrent = [](DriverContext) { return kLaunchFailed; };
  DeviceThreads threads(broken, exiting_);

  const Status status = threads.drain({kIdle}, patience());

  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::driver);
  EXPECT_EQ(status.error().code, kLaunchFailed);
}

// With the last piece the driver would give up its block, and other threads' launches would wait
// for that.
TEST_F(DeviceDrainTest, OnePieceOfPinnedMemoryStays) {
  for (int drains = 1; drains <= 3; ++drains) {
    ASSERT_TRUE(threads_.drain({kIdle}, patience()).ok());
    EXPECT_EQ(seen(kIdle).begun, drains);
    EXPECT_EQ(seen(kIdle).pinned.size(), 1u);
  }
}

TEST_F(DeviceDrainTest, PieceThatCouldNotBeFreedIsTheNextToGo) {
  set_result(kIdle, 1, kLaunchFailed);
  EXPECT_FALSE(threads_.drain({kIdle}, patience()).ok());
  EXPECT_EQ(seen(kIdle).pinned.size(), 2u);

  EXPECT_TRUE(threads_.drain({kIdle}, patience()).ok());
  EXPECT_EQ(seen(kIdle).pinned.size(), 1u);
}

// A capture in another thread goes on only if this thread is relaxed, and the application's signal
// handlers run in its own threads.
TEST_F(DeviceDrainTest, DisturbsNeitherCapturesNorSignals) {
  sigset_t none, before, after;
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, &before);
  threads_.prepare({kIdle});
  pthread_sigmask(SIG_SETMASK, &before, &after);
  ASSERT_TRUE(threads_.drain({kIdle}, patience()).ok());

  const FakeDevice device = seen(kIdle);
  EXPECT_EQ(device.capture_mode, kCaptureModeRelaxed);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD, SIGALRM}) {
    EXPECT_EQ(sigismember(&device.blocked, signal), 1) << signal;
    EXPECT_EQ(sigismember(&after, signal), 0) << signal << " stays blocked in the caller";
  }
}

TEST_F(DeviceDrainTest, StreamIsWaitedForAlone) {
  allow(kBusy, 0);

  EXPECT_TRUE(wait_for_stream_of(kBusy).ok());

  EXPECT_EQ(seen(kBusy).begun, 0);
}

// What is queued in it would go on, in memory that is used again.
TEST_F(DeviceDrainTest, StreamThatCannotBeWaitedForEndsWithItsDevice) {
  allow(kBusy, 0);
  set_stream_result(kBusy, kLaunchFailed);
  auto asker = std::async(std::launch::async, [&] { return wait_for_stream_of(kBusy); });
  ASSERT_TRUE(begun(kBusy, 1));
  EXPECT_EQ(asker.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);

  allow(kBusy, 1);

  const Status status = asker.get();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message,
            "cuStreamSynchronize() after copying failed: CUDA_ERROR_LAUNCH_FAILED (719)");
}

}  // namespace
}  // namespace amem
