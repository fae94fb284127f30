// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>

#include "base/mutex.h"
#include "sharing/process_context.h"
#include "sharing/sharing.h"

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

/// A client that does no work, so that nothing has to be stopped.
class IdleClient : public Client {
 public:
  bool owns(const Tag&) const override { return true; }
  Tags tags() const override { return {""}; }
};

/// Owns all tags, and shares so many communicators.
class ScopedClient : public IdleClient {
 public:
  Scope scope() override { return Scope(communicators); }
  size_t communicators = 1;
};

/// What both sides of sharing stand on, with a driver whose functions a test puts in.
class SharingTest : public testing::Test {
 protected:
  /// Other processes can reach this one. For the constructor of a test.
  void start_service(PeerHandler& handler) {
    Result<std::unique_ptr<PeerService>> service = PeerService::start(context_.self, handler);
    EXPECT_TRUE(service.ok());
    context_.peers = service.value().release();
  }
  /// Ends the service, which production leaves to the end of the process. For the destructor of a
  /// test that has started one: before what it hands messages to.
  void end_service() { const std::unique_ptr<PeerService> service(context_.peers.load()); }

  /// The same of a test whose messages go to `peers`, whose workers answer through the
  /// service.
  void end_service(std::unique_ptr<Sharing> peers) {
    const std::unique_ptr<PeerService> service(context_.peers.load());
    if (service != nullptr) service->stop();
    peers.reset();
  }

  /// In place of cuMemExportToShareableHandle: a descriptor of nothing.
  static DriverResult export_nothing(void* fd, DriverHandle, int, unsigned long long) {
    *static_cast<int*>(fd) = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return driver_result::kSuccess;
  }

  SharingTest() { context_.clients = Clients{&idle_}; }

  Driver driver_{};
  Registry registry_;
  ExitFlag exiting_;
  DeviceThreads devices_{driver_, exiting_};
  ProcessContext context_{driver_, registry_, devices_, exiting_, random_instance_id()};
  IdleClient idle_;
};

}  // namespace amem
