// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <gtest/gtest.h>

#include "engine/session.h"
#include "tests/support/fake_gpus.h"
#include "tests/support/sharing_fixture.h"

namespace amem {

/// A client that counts what the session asks of it.
class CountingClient : public IdleClient {
 public:
  CountingClient(Tags tags) : tags_(std::move(tags)) {}
  bool owns(const Tag& tag) const override { return tags_.contains(tag); }
  Tags tags() const override { return tags_; }
  Status quiesce(Deadline) override { return ++quiesced, refusal; }
  void reopen() override { ++reopened; }

  Status refusal = ok_status();
  int quiesced = 0, reopened = 0;

 private:
  const Tags tags_;
};

class SessionTest : public SharingTest {
 protected:
  static constexpr int kDevice = FakeGpus::kFirstDevice;
  static constexpr size_t kBytes = FakeGpus::kBytes;

  SessionTest() {
    context_.clients = Clients{&first_, &second_};
    // All that the drain of a device needs (device_work.cc).
    driver_.cuMemHostAlloc = [](void** memory, size_t, unsigned flags) {
      static char piece;
      *memory = &piece;
      return flags == 0 ? driver_result::kSuccess : driver_result::kUnknown;
    };
    driver_.cuMemFreeHost = [](void*) { return driver_result::kSuccess; };
    driver_.cuDeviceGetUuid_v2 = [](void*, int) { return driver_result::kUnknown; };
  }
  ~SessionTest() override {
    for (DeviceThreads* const threads : {&devices_, &context_.fill_threads})
      (void)threads->run({{kDevice, [] { return ok_status(); }}}, "the test", patience());
    MutexLock lock(registry_.mutex);
    for (auto& [id, backing] : registry_.backings()) backing.forget_saved();
  }

  BackingId add(const Tag& tag) {
    MutexLock lock(registry_.mutex);
    AllocationProperties properties{};
    properties.location = {kLocationDevice, kDevice};
    Allocation& allocation = registry_.add_local(kBytes, properties, 7, kBytes, tag);
    Backing& backing = registry_.backing_of(allocation);
    const DeviceAddress address = gpus_.add(kDevice, static_cast<unsigned char>(backing.id));
    registry_.add_mapping(allocation, address, kBytes);
    registry_.add_placement(backing, address, kBytes).mapped = true;
    return backing.id;
  }
  bool is_intact(BackingId id) {
    DeviceAddress address = 0;
    {
      MutexLock lock(registry_.mutex);
      const Backing& backing = *registry_.find_backing(id);
      if (backing.state != BackingState::resident) return false;
      address = backing.placement_for_copies()->address;
    }
    return gpus_.holds(address, static_cast<unsigned char>(id));
  }
  BackingState backing_state(BackingId id) {
    MutexLock lock(registry_.mutex);
    return registry_.find_backing(id)->state;
  }
  void set_failing_copy(size_t number) {
    MutexLock lock(gpus_.mutex);
    gpus_.failing_copy = number;
  }
  void set_room(size_t objects) {
    MutexLock lock(gpus_.mutex);
    gpus_.room = objects;
  }
  static Deadline patience() { return Deadline::after_ms(20000); }

  FakeGpus gpus_{driver_};
  CountingClient first_{{"nccl"}}, second_{{"kv_cache", "weights"}};
  Sharing sharing_{context_, [](bool) { return std::string(); }};
  Session session_{context_, sharing_, 0};
};

}  // namespace amem
