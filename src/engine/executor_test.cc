// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// What stays of a pause that could not make its copies.
#include "engine/executor.h"

#include <gtest/gtest.h>

#include "engine/engine_fixture.h"

namespace amem {
namespace {

constexpr DeviceAddress kAddress = 0x10000000;
constexpr size_t kBytes = size_t{2} << 20;
constexpr DriverResult kNotPermitted = 800;

class ExecutorTest : public EngineTest {
 protected:
  ExecutorTest() {
    driver_.cuGetErrorName = [](DriverResult, const char** name) {
      *name = "CUDA_ERROR_NOT_PERMITTED";
      return driver_result::kSuccess;
    };
    driver_.cuDevicePrimaryCtxGetState = [](int, unsigned*, int* active) {
      *active = 1;
      return driver_result::kSuccess;
    };
    driver_.cuDevicePrimaryCtxRetain = [](DriverContext* context, int) {
      *context = nullptr;
      return driver_result::kSuccess;
    };
    driver_.cuThreadExchangeStreamCaptureMode = [](int*) { return driver_result::kSuccess; };
    driver_.cuCtxSetCurrent = [](DriverContext) { return driver_result::kSuccess; };
    driver_.cuStreamCreate = [](DriverStream*, unsigned) { return kNotPermitted; };
    MutexLock lock(registry_.mutex);
    Allocation& allocation = registry_.add_local(kBytes, {}, 7, kBytes);
    registry_.add_mapping(allocation, kAddress, kBytes);
    Backing& backing = registry_.backing_of(allocation);
    registry_.add_placement(backing, kAddress, kBytes).mapped = true;
    backing_ = backing.id;
  }

  Status save() {
    std::vector<Step> begun;
    const std::vector<Step> plan = {{Step::Action::save, backing_}};
    return executor_.save(plan, &begun, Deadline::after_ms(20000));
  }
  Backing backing() {
    MutexLock lock(registry_.mutex);
    return *registry_.find_backing(backing_);
  }

  HostStore store_{driver_, 0};
  const KindSettings kinds_{};
  Executor executor_{driver_, registry_, devices_, store_, kinds_, exiting_};
  BackingId backing_ = 0;
};

// Whoever frees it would wait for a copy that nobody makes.
TEST_F(ExecutorTest, SaveThatFailsLeavesNoCopyUnderWay) {
  EXPECT_FALSE(save().ok());

  EXPECT_EQ(backing().copying, 0);
  EXPECT_EQ(backing().state, BackingState::resident);
}

TEST_F(ExecutorTest, SaveWhoseJobDoesNotRunLeavesNoCopyUnderWay) {
  driver_.cuCtxSetCurrent = [](DriverContext) { return kNotPermitted; };

  EXPECT_FALSE(save().ok());

  EXPECT_EQ(backing().copying, 0);
  EXPECT_EQ(backing().state, BackingState::resident);
}

}  // namespace
}  // namespace amem
