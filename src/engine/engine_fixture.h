// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>

#include "base/mutex.h"
#include "engine/engine_context.h"
#include "engine/neighbours.h"
#include "registry/nccl_client.h"

namespace amem {

/// Where two threads meet that are at work at the same time; two in turn never do.
class Meeting {
 public:
  /// Waits for the other one. False when it does not come.
  bool come() {
    MutexLock lock(mutex_);
    ++here_;
    changed_.notify_all();
    return changed_.wait_until(mutex_, Deadline::after_ms(5000),
                               [&]() AMEM_REQUIRES(mutex_) { return here_ == 2; });
  }

 private:
  Mutex mutex_;
  Condition changed_;
  int here_ AMEM_GUARDED_BY(mutex_) = 0;
};

/// Does nothing with messages that nobody asked for.
class Nobody : public PeerHandler {
 public:
  void on_message(const PeerInfo&, uint64_t, Received) override {}
  void on_peer_gone(const PeerInfo&) override {}
};

/// What both sides of sharing stand on, with a driver whose functions a test puts in.
class EngineTest : public testing::Test {
 protected:
  /// Other processes can reach this one. For the constructor of a test.
  void start_service(PeerHandler& handler) {
    Result<std::unique_ptr<PeerService>> service = PeerService::start(context_.self, 0, handler);
    EXPECT_TRUE(service.ok());
    context_.peers = service.value().release();
  }
  /// Ends the service, which production leaves to the end of the process. For the destructor of a
  /// test that has started one: before what it hands messages to.
  void end_service() { const std::unique_ptr<PeerService> service(context_.peers.load()); }

  /// The same of a test whose messages go to `neighbours`, whose workers answer through the
  /// service.
  void end_service(std::unique_ptr<Neighbours> neighbours) {
    const std::unique_ptr<PeerService> service(context_.peers.load());
    if (service != nullptr) service->stop();
    neighbours.reset();
  }

  /// In place of cuMemExportToShareableHandle: a descriptor of nothing.
  static DriverResult export_nothing(void* fd, DriverHandle, int, unsigned long long) {
    *static_cast<int*>(fd) = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return driver_result::kSuccess;
  }

  EngineTest() { context_.client = &client_; }

  Driver driver_{};
  Registry registry_;
  CallGate gate_;
  ExitFlag exiting_;
  DeviceThreads devices_{driver_, exiting_};
  EngineContext context_{driver_, registry_, devices_, exiting_, random_instance_id()};
  /// An NCCL whose calls have all been carried out when they return.
  NcclClient client_{
      gate_, registry_, {[](const auto*, Deadline) { return ok_status(); }, [] { return false; }}};
};

}  // namespace amem
