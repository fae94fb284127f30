// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <gtest/gtest.h>

#include "engine/executor.h"
#include "tests/support/fake_gpus.h"
#include "tests/support/sharing_fixture.h"

namespace amem {

/// An executor of backings on GPUs whose memory is the test's.
class ExecutorTest : public SharingTest {
 protected:
  /// Blocks go back to their pool, and the last jobs of a move that has failed end.
  ~ExecutorTest() override {
    settle();
    MutexLock lock(registry_.mutex);
    for (auto& [id, backing] : registry_.backings()) backing.forget_saved();
  }

  /// What a move that has failed had queued has ended.
  void settle() {
    const DeviceThreads::Job nothing = [] { return ok_status(); };
    constexpr int kFirst = FakeGpus::kFirstDevice;
    for (DeviceThreads* const threads : {&devices_, &context_.fill_threads})
      (void)threads->run({{kFirst, nothing}, {kFirst + 1, nothing}}, "the test", patience());
  }
  /// The next backing, 1 at first, whose contents its id says.
  BackingId add(int device = FakeGpus::kFirstDevice, Kind kind = Kind::keep) {
    MutexLock lock(registry_.mutex);
    AllocationProperties properties{};
    properties.location = {kLocationDevice, device};
    Allocation& allocation = registry_.add_local(FakeGpus::kBytes, properties, 7, FakeGpus::kBytes);
    allocation.kind = kind;
    Backing& backing = registry_.backing_of(allocation);
    const DeviceAddress address = gpus_.add(device, static_cast<unsigned char>(backing.id));
    registry_.add_mapping(allocation, address, FakeGpus::kBytes);
    registry_.add_placement(backing, address, FakeGpus::kBytes).mapped = true;
    return backing.id;
  }
  Backing backing(BackingId id) {
    MutexLock lock(registry_.mutex);
    return *registry_.find_backing(id);
  }
  BackingState state(BackingId id) { return backing(id).state; }
  bool is_intact(BackingId id) {
    settle();
    const Backing now = backing(id);
    return now.state == BackingState::resident && now.copying == 0 &&
           gpus_.holds(now.placement_for_copies()->address, static_cast<unsigned char>(id));
  }
  Status move_out(Executor& executor) {
    return executor.move_out(plan_pause(registry_, {""}), patience(), &report_);
  }
  Status move_out() { return move_out(executor_); }
  Plan begun() { return plan_resume(registry_, {""}); }
  Status resume() {
    return executor_.move_in(
        begun(), no_wait, [] {}, patience(), &report_);
  }
  static Status no_wait(const Error& lack, const std::map<int, size_t>&) { return lack; }
  static Deadline patience() { return Deadline::after_ms(20000); }

  FakeGpus gpus_{driver_};
  HostPool pool_{driver_, 0}, small_pool_{driver_, FakeGpus::kBytes + FakeGpus::kBytes / 2};
  BackupDirectory directory_;
  Executor executor_{context_, pool_, directory_};
  Executor limited_{context_, small_pool_, directory_};
  MoveReport report_;
};

}  // namespace amem
