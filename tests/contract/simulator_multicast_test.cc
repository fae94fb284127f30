// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Multicast objects of the simulated driver. Never on a real one: an object that waits for a device
// for ever is not worth a machine.
#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "tests/contract/remote_process.h"
#include "tests/contract/simulator_case.h"

namespace amem::contract {
namespace {

class SimulatorMulticast : public SimulatorCase {
 protected:
  void SetUp() override {
    SimulatorCase::SetUp();
    if (IsSkipped()) return;
    int supported = 0;
    ASSERT_EQ(kSuccess, driver().cuDeviceGetAttribute(&supported, kAttributeMulticast, 0));
    if (supported == 0) GTEST_SKIP() << "AMEM_SIM_MULTICAST is not 1";
    const CuMulticastProp wanted{2, kBytes, kHandleTypePosixFd, 0};
    ASSERT_EQ(kSuccess, driver().cuMulticastCreate(&object_, &wanted));
    memory_ = create(kBytes);
  }

  void TearDown() override {
    if (object_ != 0) {
      EXPECT_EQ(kSuccess, driver().cuMemRelease(object_));
    }
    if (memory_ != 0) {
      EXPECT_EQ(kSuccess, driver().cuMemRelease(memory_));
    }
    SimulatorCase::TearDown();
  }

  CuResult bind() { return driver().cuMulticastBindMem(object_, 0, memory_, 0, kBytes, 0); }

  static constexpr size_t kBytes = 4 * kMb;
  CuMemHandle object_ = 0;
  CuMemHandle memory_ = 0;
};

// Runs a call in a thread and tells whether it has returned.
class Background {
 public:
  explicit Background(std::function<CuResult()> call)
      : thread_([this, call = std::move(call)] {
          started_ = true;
          result_ = call();
          returned_ = true;
        }) {}

  bool started() const { return started_; }
  bool returned() const { return returned_; }
  CuResult join() {
    thread_.join();
    return result_;
  }

 private:
  std::atomic<bool> started_{false};
  std::atomic<bool> returned_{false};
  CuResult result_ = kErrorUnknown;
  std::thread thread_;
};

TEST_F(SimulatorMulticast, BindingWaitsForAllDevices) {
  ASSERT_EQ(kSuccess, driver().cuMulticastAddDevice(object_, 0));
  const long long before = api_.call_count("cuMulticastBindMem");
  Background binding([this] { return bind(); });
  ASSERT_TRUE(eventually([&] { return api_.call_count("cuMulticastBindMem") > before; }));

  EXPECT_TRUE(stays_false([&] { return binding.returned(); }));
  ASSERT_EQ(kSuccess, driver().cuMulticastAddDevice(object_, 1));

  EXPECT_EQ(kSuccess, binding.join());
  EXPECT_EQ(kSuccess, driver().cuMulticastUnbind(object_, 0, 0, kBytes));
}

TEST_F(SimulatorMulticast, MappingWaitsForAllDevices) {
  ASSERT_EQ(kSuccess, driver().cuMulticastAddDevice(object_, 0));
  const CuDevicePtr address = reserve(kBytes);
  const long long before = api_.call_count("cuMemMap");
  Background mapping([&] { return driver().cuMemMap(address, kBytes, 0, object_, 0); });
  ASSERT_TRUE(eventually([&] { return api_.call_count("cuMemMap") > before; }));

  EXPECT_TRUE(stays_false([&] { return mapping.returned(); }));
  ASSERT_EQ(kSuccess, driver().cuMulticastAddDevice(object_, 1));

  EXPECT_EQ(kSuccess, mapping.join());
  const CuAccessDesc access = read_write();
  EXPECT_EQ(kSuccess, driver().cuMemSetAccess(address, kBytes, &access, 1));
  fill(address, 1, kBytes);
  free(address, kBytes);
}

TEST_F(SimulatorMulticast, DevicesOfOtherProcessesCount) {
  RemoteProcess remote;
  ASSERT_EQ(kSuccess, remote.tell(Command::kStart).result);
  int fd = -1;
  ASSERT_EQ(kSuccess, driver().cuMemExportToShareableHandle(&fd, object_, kHandleTypePosixFd, 0));
  UniqueFd exported(fd);
  ASSERT_EQ(kSuccess, remote.tell(Command::kImport, 0, fd).result);
  ASSERT_EQ(kSuccess, driver().cuMulticastAddDevice(object_, 0));
  Background binding([this] { return bind(); });

  ASSERT_TRUE(eventually([&] { return binding.started(); }));
  EXPECT_TRUE(stays_false([&] { return binding.returned(); }));
  ASSERT_EQ(kSuccess, remote.tell(Command::kAddDevice, 1).result);

  EXPECT_EQ(kSuccess, binding.join());
}

TEST_F(SimulatorMulticast, BindHoldsTheMemory) {
  const long long before = api_.used_bytes(0);
  ASSERT_EQ(kSuccess, driver().cuMulticastAddDevice(object_, 0));
  ASSERT_EQ(kSuccess, driver().cuMulticastAddDevice(object_, 1));
  ASSERT_EQ(kSuccess, bind());
  ASSERT_EQ(kSuccess, driver().cuMemRelease(std::exchange(memory_, 0)));

  EXPECT_EQ(before, api_.used_bytes(0));

  ASSERT_EQ(kSuccess, driver().cuMulticastUnbind(object_, 0, 0, kBytes));
  EXPECT_EQ(before - static_cast<long long>(kBytes), api_.used_bytes(0));
}

TEST_F(SimulatorMulticast, EndOfTheObjectEndsItsBinds) {
  const long long before = api_.used_bytes(0);
  ASSERT_EQ(kSuccess, driver().cuMulticastAddDevice(object_, 0));
  ASSERT_EQ(kSuccess, driver().cuMulticastAddDevice(object_, 1));
  ASSERT_EQ(kSuccess, bind());
  ASSERT_EQ(kSuccess, driver().cuMemRelease(std::exchange(memory_, 0)));

  ASSERT_EQ(kSuccess, driver().cuMemRelease(std::exchange(object_, 0)));

  EXPECT_EQ(before - static_cast<long long>(kBytes), api_.used_bytes(0));
}

TEST_F(SimulatorMulticast, UnbindsOnlyWhatWasBound) {
  ASSERT_EQ(kSuccess, driver().cuMulticastAddDevice(object_, 0));
  ASSERT_EQ(kSuccess, driver().cuMulticastAddDevice(object_, 1));
  ASSERT_EQ(kSuccess, bind());

  EXPECT_EQ(kErrorInvalidValue, driver().cuMulticastUnbind(object_, 0, 0, granularity()));
  EXPECT_EQ(kErrorInvalidValue, driver().cuMulticastUnbind(object_, 1, 0, kBytes));
  EXPECT_EQ(kErrorInvalidValue, bind()) << "there is something bound already";
  EXPECT_EQ(kSuccess, driver().cuMulticastUnbind(object_, 0, 0, kBytes));
}

TEST_F(SimulatorMulticast, TakesBindsBeyondItsSize) {
  ASSERT_EQ(kSuccess, driver().cuMulticastAddDevice(object_, 0));
  ASSERT_EQ(kSuccess, driver().cuMulticastAddDevice(object_, 1));
  ASSERT_EQ(kSuccess, bind());
  const auto bind_at = [&](size_t offset_bytes) {
    return driver().cuMulticastBindMem(object_, offset_bytes, memory_, 0, kBytes, 0);
  };
  EXPECT_EQ(kSuccess, bind_at(kBytes));
  EXPECT_EQ(kErrorInvalidValue, bind_at(512 * kMb));
}

TEST_F(SimulatorMulticast, SwitchHas128ObjectsWithMemory) {
  std::vector<CuMemHandle> objects(129);
  for (CuMemHandle& object : objects) {
    const CuMulticastProp wanted{1, kBytes, kHandleTypePosixFd, 0};
    ASSERT_EQ(kSuccess, driver().cuMulticastCreate(&object, &wanted));
    ASSERT_EQ(kSuccess, driver().cuMulticastAddDevice(object, 0));
    EXPECT_EQ(&object == &objects.back() ? kErrorOutOfMemory : kSuccess,
              driver().cuMulticastBindMem(object, 0, memory_, 0, kBytes, 0));
  }
  EXPECT_EQ(kSuccess, driver().cuMulticastUnbind(objects.front(), 0, 0, kBytes));
  EXPECT_EQ(kSuccess, driver().cuMulticastBindMem(objects.back(), 0, memory_, 0, kBytes, 0));
  for (const CuMemHandle object : objects) EXPECT_EQ(kSuccess, driver().cuMemRelease(object));
}

TEST_F(SimulatorMulticast, HasAGranularity) {
  const CuMulticastProp wanted{2, kBytes, kHandleTypePosixFd, 0};
  size_t bytes = 0;
  ASSERT_EQ(kSuccess, driver().cuMulticastGetGranularity(&bytes, &wanted, kGranularityMinimum));
  EXPECT_EQ(granularity(), bytes);
}

TEST_F(SimulatorMulticast, AddsEachDeviceOnceAndNoMoreThanItHas) {
  ASSERT_EQ(kSuccess, driver().cuMulticastAddDevice(object_, 0));

  EXPECT_EQ(kErrorInvalidValue, driver().cuMulticastAddDevice(object_, 0));
  ASSERT_EQ(kSuccess, driver().cuMulticastAddDevice(object_, 1));
  EXPECT_EQ(kErrorInvalidValue, driver().cuMulticastAddDevice(object_, 2));
}

}  // namespace
}  // namespace amem::contract
