// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/symmetric/symmetric_client.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>

namespace amem {
namespace {

constexpr InstanceId kPeer{{1, 2}}, kOther{{3, 4}};
constexpr DeviceAddress kOwn = 0x10000, kOfPeer = 0x20000, kOfOther = 0x30000;
constexpr size_t kBytes = 4096;

class SymmetricClientTest : public testing::Test {
 protected:
  SymmetricClientTest() {
    driver_.cuDevicePrimaryCtxGetState = [](int, unsigned*, int* is_active) {
      *is_active = 0;  // there is no work to wait for
      return driver_result::kSuccess;
    };
    MutexLock lock(registry_.mutex);
    add(registry_.add_local(kBytes, {}, 1, kBytes, kSymmetricTag), kOwn);
    add(registry_.add_import(origin_of(kPeer, 7)), kOfPeer);
    add(registry_.add_import(origin_of(kOther, 8)), kOfOther);
  }

  const void* set_of(std::vector<AddressRange> ranges) {
    return client_.create_set({std::move(ranges), {on_peer_ended, failure, this}}).value();
  }
  const void* set_of_peer() { return set_of({{kOfPeer, 1}}); }
  Status destroy(const void* set, long timeout_ms = kLongMs) {
    return client_.destroy_set(set, Deadline::after_ms(timeout_ms));
  }
  /// As sharing notes it, before it tells the clients.
  void note_end_of(const InstanceId& owner) {
    MutexLock lock(registry_.mutex);
    for (auto& [id, each] : registry_.allocations())
      if (each.is_import && each.origin.owner == owner) each.owner_has_ended = true;
  }

  uint64_t pause(const InstanceId& peer) {
    return peers_.pause(peer, {kSymmetricTag}, "process 7 is paused", {}, true)[kSymmetricTag];
  }
  /// As seen by a call that waits, before sharing tells the clients.
  void end_in_table(const InstanceId& peer, const std::string& text) {
    peers_.end(peer, text, {kSymmetricTag});
  }
  void end(const InstanceId& peer, const std::string& text) {
    peers_.end(peer, text, {kSymmetricTag});
    client_.reopen_for_peer();
  }

  static constexpr long kLongMs = 20000;
  static constexpr std::chrono::milliseconds kLongerThanNotice{kNoticeMs + 100};
  Registry registry_;
  Driver driver_;
  ExitFlag exiting_;
  DeviceThreads devices_{driver_, exiting_};
  PeerTable peers_;
  SymmetricClient client_{registry_, devices_, peers_, kLongMs};
  std::string ended_;
  const char* failure_ = nullptr;

 private:
  static RemoteAllocation origin_of(const InstanceId& owner, pid_t pid) {
    RemoteAllocation origin;
    origin.owner = owner;
    origin.owner_pid = pid;
    origin.size_bytes = kBytes;
    origin.tag = kSymmetricTag;
    return origin;
  }
  void add(Allocation& allocation, DeviceAddress address) AMEM_REQUIRES(registry_.mutex) {
    allocation.size_bytes = kBytes;
    registry_.add_mapping(allocation, address, kBytes);
  }
  static void on_peer_ended(void* test, const char* text) {
    static_cast<SymmetricClientTest*>(test)->ended_ += text;
  }
  static const char* failure(void* test) {
    return static_cast<SymmetricClientTest*>(test)->failure_;
  }
};

// Its kernels would use memory that is not mapped.
TEST_F(SymmetricClientTest, CallThatWaitsForAPeerDoesNotEnterWhenThePeerEnds) {
  const void* const set = set_of_peer();
  pause(kPeer);
  auto waiting = std::async(std::launch::async, [&] { return client_.enter(set, kLongMs); });
  EXPECT_EQ(waiting.wait_for(kLongerThanNotice), std::future_status::timeout);
  end_in_table(kPeer, "process 7, has ended");
  EXPECT_EQ(waiting.get().error().kind, ErrorKind::peer);
  EXPECT_EQ(ended_, "process 7, has ended");
}

TEST_F(SymmetricClientTest, SetIsOfTheFirstBytesOfAllocations) {
  for (const AddressRange& wrong :
       {AddressRange{kOwn + 1, 1}, {0, 1}, {kOwn, 0}, {kOwn, kBytes + 1}})
    EXPECT_EQ(client_.create_set({{wrong}}).error().kind, ErrorKind::misuse);
  MutexLock lock(registry_.mutex);
  Allocation& weights = registry_.add_local(kBytes, {}, 2, kBytes, "weights");
  registry_.add_mapping(weights, 0x40000, kBytes);
  registry_.mutex.unlock();
  EXPECT_EQ(client_.create_set({{{0x40000, 1}}}).error().kind, ErrorKind::misuse);
  registry_.mutex.lock();
}

TEST_F(SymmetricClientTest, SetsSayWhichBytesSurvive) {
  const auto kept_bytes = [&] {
    MutexLock lock(registry_.mutex);
    const AllocationId id = registry_.find_mapping(kOwn)->allocation;
    return client_.live_ranges(*registry_.find(id)).front().size_bytes;
  };
  EXPECT_EQ(kept_bytes(), kBytes);
  const void* const set = set_of({{kOwn, 100}, {kOfPeer, 1}});
  EXPECT_EQ(kept_bytes(), 100u);
  const void* const larger = set_of({{kOwn, 200}});
  EXPECT_EQ(kept_bytes(), 200u) << "of all sets";
  EXPECT_TRUE(destroy(larger).ok() && kept_bytes() == 100u);
  static_cast<void>(set);
}

TEST_F(SymmetricClientTest, SetOfAPeerThatEndsFails) {
  const void* const set = set_of_peer();
  EXPECT_TRUE(client_.enter(set_of({{kOfOther, 1}}), 0).ok());
  end(kPeer, "process 7, has ended");
  end(kPeer, "again");
  EXPECT_EQ(ended_, "process 7, has ended") << "its kernels would wait";
  EXPECT_EQ(client_.enter(set, 0).error().message, "an owner of the memory, process 7, has ended");
}

// Its end was reported after its memory had been opened, before there was a set.
TEST_F(SymmetricClientTest, SetOfAPeerThatHasEndedFails) {
  note_end_of(kPeer);
  end(kPeer, "process 7, has ended");
  EXPECT_TRUE(client_.enter(set_of({{kOfOther, 1}}), 0).ok());
  EXPECT_EQ(ended_, "");
  const void* const set = set_of({{kOwn, 1}, {kOfPeer, 1}});
  EXPECT_EQ(ended_, "process 7, has ended");
  EXPECT_EQ(client_.enter(set, 0).error().kind, ErrorKind::peer);
}

TEST_F(SymmetricClientTest, FailureOfTheUserRefusesCallsWhileItLasts) {
  const void* const set = set_of_peer();
  failure_ = "an earlier call has failed";
  const uint64_t notice = pause(kPeer);
  EXPECT_EQ(client_.enter_launch("cuGraphLaunch", set, true).error().message, failure_)
      << "at once: it does not wait for the peer";
  EXPECT_TRUE(peers_.reopen(kPeer, kSymmetricTag, notice));
  failure_ = nullptr;
  EXPECT_TRUE(client_.enter(set, 0).ok());
}

TEST_F(SymmetricClientTest, NameOfADestroyedSetIsNeverThatOfAnother) {
  const void* const first = set_of_peer();
  ASSERT_TRUE(destroy(first).ok());
  EXPECT_NE(set_of_peer(), first);
  EXPECT_EQ(client_.enter(first, 0).error().kind, ErrorKind::misuse);
  EXPECT_EQ(client_.leave(first).error().kind, ErrorKind::misuse);
}

TEST_F(SymmetricClientTest, SetThatEndsWaitsForTheCallInsideAndFailsThoseThatWait) {
  const void* const set = set_of_peer();
  ASSERT_TRUE(client_.enter(set, 0).ok());
  (void)pause(kPeer);
  auto waiting = std::async(std::launch::async, [&] { return client_.enter(set, kLongMs); });
  // Until its notice it would look again by itself.
  EXPECT_EQ(waiting.wait_for(kLongerThanNotice), std::future_status::timeout);
  std::atomic<bool> has_left{false};
  auto destroyed = std::async(std::launch::async, [&] { return destroy(set).ok() && has_left; });
  EXPECT_EQ(waiting.wait_for(kLongerThanNotice), std::future_status::ready) << "at once";
  EXPECT_EQ(waiting.get().error().message, "another thread destroys the handle");
  EXPECT_EQ(destroy(set).error().kind, ErrorKind::misuse) << "another thread destroys it";
  has_left = true;
  EXPECT_TRUE(client_.leave(set).ok());
  EXPECT_TRUE(destroyed.get()) << "its mappings would be released under the call";
}

TEST_F(SymmetricClientTest, SetWorksAfterACallThatDidNotLeaveInTime) {
  const void* const set = set_of_peer();
  ASSERT_TRUE(client_.enter_launch("cuGraphLaunch", set, true).ok());
  EXPECT_EQ(destroy(set, 1).error().kind, ErrorKind::timeout);
  ASSERT_TRUE(client_.enter_launch("cuGraphLaunch", set, true).ok());
  for (int launch = 0; launch < 2; ++launch) client_.leave_launch(set);
  EXPECT_TRUE(client_.quiesce(Deadline::after_ms(0)).ok());
  EXPECT_TRUE(destroy(set, 0).ok());
}

}  // namespace
}  // namespace amem
