// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// What an owner's messages do to the gates and to its memory here, in every order in which they
// come.
#include "engine/imports.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "engine/engine_fixture.h"
#include "peers/peer_fixture.h"
#include "registry/communicator_id.h"

namespace amem {
namespace {

constexpr DeviceAddress kAddress = 0x10000000;
constexpr size_t kBytes = size_t{2} << 20;
const CommunicatorId kWorld = communicator_from_bytes("world", 5);

struct {
  std::atomic<bool> hold;  ///< unmapping takes as long
  std::atomic<int> unmaps;
} g_calls;

/// Answers nothing: the messages are handed to the imports by the test.
class Deaf : public PeerHandler {
 public:
  void on_message(const PeerInfo&, uint64_t, Received) override {}
  void on_peer_gone(const PeerInfo&) override {}
};

class ImportsTest : public EngineTest {
 protected:
  ImportsTest() {
    driver_.cuMemImportFromShareableHandle = [](DriverHandle* handle, void*, int) {
      return *handle = 7, driver_result::kSuccess;
    };
    driver_.cuMemMap = [](DeviceAddress, size_t, size_t, DriverHandle, unsigned long long) {
      return driver_result::kSuccess;
    };
    g_calls.hold = false;
    g_calls.unmaps = 0;
    driver_.cuMemUnmap = [](DeviceAddress, size_t) {
      while (g_calls.hold) std::this_thread::yield();
      return ++g_calls.unmaps, driver_result::kSuccess;
    };
    driver_.cuMemRelease = [](DriverHandle) { return driver_result::kSuccess; };
    EXPECT_TRUE(imports_->start().ok());
    Result<std::unique_ptr<PeerService>> service = PeerService::start(context_.self, 0, deaf_);
    EXPECT_TRUE(service.ok());
    context_.peers = service.value().release();
    gate_.add_communicator(&gate_, kWorld);
    MutexLock lock(registry_.mutex);
    Allocation& import = registry_.add_import({owner_.instance, 1, 2, kBacking, 0, 0, kBytes});
    Backing& backing = registry_.backing_of(import);
    registry_.add_placement(backing, kAddress, kBytes);
    import_ = backing.id;
  }
  // Its workers answer through the service.
  ~ImportsTest() override {
    imports_.reset();
    end_service();
  }

  void away() { imports_->on_away(owner_, 0, Away{{kWorld}}); }
  void let_go() { imports_->on_let_go(owner_, 0, LetGo{kTimeoutMs, {kWorld}}); }
  void back() {
    std::vector<UniqueFd> fds;
    fds.emplace_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
    imports_->on_back(owner_, 0, Back{{kBacking}, true}, std::move(fds));
  }
  /// Of a bystander, which shares no memory.
  void back_without_memory() { imports_->on_back(owner_, 0, Back{{}, true}, {}); }

  bool is_open() {
    const bool entered = gate_.enter("ncclAllReduce", &gate_, 0).ok();
    if (entered) gate_.leave();
    return entered;
  }
  BackingState state() {
    MutexLock lock(registry_.mutex);
    return registry_.find_backing(import_)->state;
  }
  void set_state(BackingState state) {
    MutexLock lock(registry_.mutex);
    Backing& import = *registry_.find_backing(import_);
    import.state = state;
    import.handle = state == BackingState::mapped ? 7 : 0;
    import.placements.front().mapped = state == BackingState::mapped;
  }
  /// True when it is so before long.
  bool becomes(const std::function<bool()>& holds) {
    const Deadline deadline = Deadline::after_ms(kTimeoutMs);
    while (!holds())
      if (deadline.passed()) return false;
    return true;
  }

  static constexpr uint32_t kTimeoutMs = 10000;
  static constexpr BackingId kBacking = 5;
  Deaf deaf_;
  std::unique_ptr<Imports> imports_ = std::make_unique<Imports>(context_);
  const PeerInfo owner_{random_instance_id(), 4711, 0};
  BackingId import_ = 0;
};

TEST_F(ImportsTest, OwnerThatIsBackIsMappedAndItsGatesAreOpen) {
  set_state(BackingState::mapped);
  let_go();
  EXPECT_TRUE(becomes([&] { return state() == BackingState::let_go; }));
  EXPECT_FALSE(is_open());

  back();

  EXPECT_TRUE(becomes([&] { return is_open(); }));
  EXPECT_EQ(state(), BackingState::mapped);
}

// A process that did not hear finds all of it in its socket at once. The first return must not open
// the gate for calls that would use what the second let-go takes away.
TEST_F(ImportsTest, GateStaysClosedWhenAnEarlierReturnIsCarriedOutLate) {
  set_state(BackingState::mapped);
  g_calls.hold = true;
  let_go();
  back();
  let_go();
  g_calls.hold = false;

  ASSERT_TRUE(becomes([&] { return g_calls.unmaps == 2; }));
  EXPECT_EQ(state(), BackingState::let_go);
  EXPECT_FALSE(is_open());

  back();
  EXPECT_TRUE(becomes([&] { return is_open(); }));
  EXPECT_EQ(state(), BackingState::mapped);
}

TEST_F(ImportsTest, GateOfABystanderStaysClosedLikewise) {
  set_state(BackingState::mapped);
  g_calls.hold = true;
  let_go();
  back();
  away();
  g_calls.hold = false;

  ASSERT_TRUE(becomes([&] { return state() == BackingState::mapped; }));
  EXPECT_TRUE(becomes([&] { return !is_open(); }));
  back_without_memory();
  EXPECT_TRUE(becomes([&] { return is_open(); }));
}

TEST_F(ImportsTest, ImportOfAPausedProcessStaysDropped) {
  set_state(BackingState::dropped);
  let_go();
  back();
  EXPECT_TRUE(becomes([&] { return is_open(); }));
  EXPECT_EQ(state(), BackingState::dropped);
}

}  // namespace
}  // namespace amem
