// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// What stays of a pause that could not make its copies, and what goes on while the GPU is at work.
#include "engine/executor.h"

#include <gtest/gtest.h>

#include "engine/engine_fixture.h"

namespace amem {
namespace {

constexpr DeviceAddress kAddress = 0x10000000;
constexpr size_t kBytes = size_t{2} << 20;
constexpr DriverResult kNotPermitted = 800;

Meeting* g_meeting = nullptr;
bool g_gpu_met = false, g_unmap_met = false;

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
  const ContentSettings settings_{};
  Executor executor_{driver_, registry_, devices_, store_, settings_, exiting_};
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

int g_pinned = 0;

// Room on the host, with a driver that does what making it takes.
class ExecutorRoomTest : public ExecutorTest {
 protected:
  ExecutorRoomTest() {
    g_pinned = 0;
    driver_.cuStreamCreate = [](DriverStream*, unsigned) { return driver_result::kSuccess; };
    driver_.cuDeviceGetAttribute = [](int*, int, int) { return driver_result::kInvalidValue; };
    driver_.cuMemHostRegister_v2 = [](void*, size_t, unsigned) {
      ++g_pinned;
      return driver_result::kSuccess;
    };
    driver_.cuMemHostUnregister = [](void*) { return driver_result::kSuccess; };
  }

  /// Of the backing's contents, or none.
  static Status plan_room(Executor& executor, const std::vector<BackingId>& saved) {
    std::vector<Step> plan;
    for (const BackingId id : saved) plan.push_back({Step::Action::save, id});
    return executor.plan_room(plan, Deadline::after_ms(20000));
  }
  BackingId add_another() {
    MutexLock lock(registry_.mutex);
    Allocation& allocation = registry_.add_local(kBytes, {}, 8, kBytes);
    Backing& backing = registry_.backing_of(allocation);
    registry_.add_placement(backing, kAddress + kBytes, kBytes).mapped = true;
    return backing.id;
  }

  HostStore limited_store_{driver_, kBytes + kBytes / 2};
  Executor limited_{driver_, registry_, devices_, limited_store_, settings_, exiting_};
};

TEST_F(ExecutorRoomTest, IsPlannedFirstAndMadeThen) {
  ASSERT_TRUE(plan_room(executor_, {backing_}).ok());
  EXPECT_EQ(store_.capacity_bytes(), 0u);
  EXPECT_EQ(g_pinned, 0);

  ASSERT_TRUE(executor_.make_room(Deadline::after_ms(20000)).ok());
  EXPECT_GE(store_.capacity_bytes(), kBytes);
  EXPECT_EQ(g_pinned, 1);
}

TEST_F(ExecutorRoomTest, MoreThanTheLimitIsRefusedBeforeAnyIsMade) {
  const BackingId another = add_another();

  const Status refused = plan_room(limited_, {backing_, another});

  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("AMEM_HOST_LIMIT"), std::string::npos);
  EXPECT_EQ(g_pinned, 0);
}

TEST_F(ExecutorRoomTest, WhatWasTooMuchIsLookedAtAgain) {
  const BackingId another = add_another();
  ASSERT_FALSE(plan_room(limited_, {backing_, another}).ok());

  EXPECT_TRUE(plan_room(limited_, {backing_}).ok()) << "the other one was freed meanwhile";
}

TEST_F(ExecutorRoomTest, NothingToSaveTakesNone) {
  ASSERT_TRUE(plan_room(executor_, {backing_}).ok());

  ASSERT_TRUE(plan_room(executor_, {}).ok());
  ASSERT_TRUE(executor_.make_room(Deadline::after_ms(20000)).ok());
  EXPECT_EQ(store_.capacity_bytes(), 0u);
}

// The GPU's part begins by making its stream; both ends of the meeting wait for the other, so that
// neither order of one after the other passes.
class ExecutorOverlapTest : public ExecutorTest {
 protected:
  ExecutorOverlapTest() {
    g_meeting = &meeting_;
    g_gpu_met = g_unmap_met = false;
    driver_.cuStreamCreate = [](DriverStream*, unsigned) {
      g_gpu_met = g_meeting->come();
      return kNotPermitted;
    };
    driver_.cuMemUnmap = [](DeviceAddress, size_t) {
      g_unmap_met = g_meeting->come();
      return driver_result::kSuccess;
    };
    driver_.cuMemRelease = [](DriverHandle) { return driver_result::kSuccess; };
  }

  Meeting meeting_;
};

TEST_F(ExecutorOverlapTest, ImportsAreDroppedWhileContentsAreLookedFor) {
  BackingId import = 0;
  {
    MutexLock lock(registry_.mutex);
    Allocation& allocation = registry_.add_import({random_instance_id(), 1, 2, 8, 0, 0, kBytes, 3});
    registry_.add_mapping(allocation, kAddress + kBytes, kBytes);
    Backing& backing = registry_.backing_of(allocation);
    registry_.add_placement(backing, kAddress + kBytes, kBytes).mapped = true;
    import = backing.id;
  }
  std::vector<Step> begun;
  (void)executor_.save({{Step::Action::save, backing_}, {Step::Action::drop, import}}, &begun,
                       Deadline::after_ms(20000));
  EXPECT_TRUE(g_gpu_met && g_unmap_met);
}

TEST_F(ExecutorOverlapTest, ExportsAreMadeWhileContentsComeBack) {
  {
    MutexLock lock(registry_.mutex);
    registry_.find_backing(backing_)->state = BackingState::restoring;
  }
  bool exports_met = false;
  (void)executor_.fill(
      {{Step::Action::fill, backing_}}, [&] { exports_met = meeting_.come(); },
      Deadline::after_ms(20000));
  EXPECT_TRUE(g_gpu_met && exports_met);
}

}  // namespace
}  // namespace amem
