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

class SymmetricClientTest : public testing::Test {
 protected:
  /// A handle of a group with these processes.
  std::unique_ptr<SymmetricHandle> handle_of(std::vector<SymmetricPeer> peers) {
    auto handle = std::make_unique<SymmetricHandle>();
    handle->peers = std::move(peers);
    handle->report = &report_;
    return handle;
  }

  auto take(const void* handle, long timeout_ms = kLongMs) {
    return client_.take(handle, Deadline::after_ms(timeout_ms));
  }

  void end(const InstanceId& peer, const std::string& text) {
    peers_.end(peer, text, {kSymmetricTag});
    client_.reopen_for_peer();
  }

  static constexpr long kLongMs = 20000;
  static constexpr std::chrono::milliseconds kMoment{50};
  static constexpr std::chrono::milliseconds kLongerThanNotice{kNoticeMs + 100};
  Registry registry_;
  PeerTable peers_;
  SymmetricClient client_{registry_, peers_};
  symmetric::detail::Report report_{};
};

// Its end was reported while the ranks met, before there was a handle.
TEST_F(SymmetricClientTest, HandleOfAPeerThatHasEndedFails) {
  end(kPeer, "process 7, has ended");
  EXPECT_TRUE(client_.status_of(client_.add(handle_of({{kOther, 8}}))).ok());
  EXPECT_EQ(report_.abort, 0u);
  const void* const dead = client_.add(handle_of({{kOther, 8}, {kPeer, 7}}));
  EXPECT_EQ(client_.status_of(dead).error().message, "a rank of the group, process 7, has ended");
  EXPECT_EQ(report_.abort, 1u) << "its kernels would wait";
}

// Processes of the user come and go, such as `amem status`.
TEST_F(SymmetricClientTest, EndOfAPeerIsKeptOnlyWhileRanksMeet) {
  (void)client_.keep_ended();
  const void* const early = client_.add(handle_of({{kPeer, 7}}));
  end(kPeer, "process 7, has ended");
  EXPECT_FALSE(client_.status_of(early).ok()) << "it has a handle";
  report_.abort = 0;
  EXPECT_TRUE(client_.status_of(client_.add(handle_of({{kPeer, 7}}))).ok()) << "it is forgotten";

  auto first = client_.keep_ended(), second = client_.keep_ended();
  end(kOther, "process 8, has ended");
  first = nullptr;
  EXPECT_FALSE(client_.status_of(client_.add(handle_of({{kOther, 8}}))).ok());
  second = nullptr;
  EXPECT_TRUE(client_.status_of(client_.add(handle_of({{kOther, 8}}))).ok());
}

TEST_F(SymmetricClientTest, NameOfATakenHandleIsNeverThatOfAnother) {
  const void* const first = client_.add(handle_of({}));
  std::unique_ptr<SymmetricHandle> taken = std::move(take(first).value());
  EXPECT_NE(client_.add(handle_of({})), first);
  EXPECT_EQ(client_.look_up(first, nullptr).error().kind, ErrorKind::misuse);
  EXPECT_EQ(client_.add(std::move(taken)), first) << "it could not be released";
}

TEST_F(SymmetricClientTest, HandleThatEndsWaitsForTheCallInsideAndFailsThoseThatWait) {
  const void* const handle = client_.add(handle_of({{kPeer, 7}}));
  SymmetricHandle* const inside = client_.enter(handle, 0).value();
  (void)peers_.pause(kPeer, {kSymmetricTag}, "process 7 is paused", {}, true);
  auto waiting = std::async(std::launch::async, [&] { return client_.enter(handle, kLongMs); });
  // Until its notice it would look again by itself.
  EXPECT_EQ(waiting.wait_for(kLongerThanNotice), std::future_status::timeout);
  std::atomic<bool> has_left{false};
  auto taken = std::async(std::launch::async, [&] { return take(handle).ok() && has_left; });
  EXPECT_EQ(waiting.wait_for(kLongerThanNotice), std::future_status::ready) << "at once";
  EXPECT_EQ(waiting.get().error().message, "another thread destroys the handle");
  EXPECT_TRUE(client_.look_up(handle, [](const SymmetricHandle&) {}).ok()) << "it still exists";
  EXPECT_EQ(take(handle).error().kind, ErrorKind::misuse) << "another thread destroys it";
  has_left = true;
  client_.leave(*inside, ok_status());
  EXPECT_TRUE(taken.get()) << "its mappings would be released under the call";
}

TEST_F(SymmetricClientTest, HandleDoesNotEndWhileItIsRead) {
  const void* const handle = client_.add(handle_of({}));
  std::future<bool> taken;
  const auto destroy = [&](const SymmetricHandle&) {
    taken = std::async(std::launch::async, [&] { return take(handle).ok(); });
    EXPECT_EQ(taken.wait_for(kMoment), std::future_status::timeout);
  };
  EXPECT_TRUE(client_.look_up(handle, destroy).ok());
  EXPECT_TRUE(taken.get());
}

TEST_F(SymmetricClientTest, HandleWorksAfterACallThatDidNotLeaveInTime) {
  const void* const handle = client_.add(handle_of({}));
  ASSERT_TRUE(client_.enter_launch("cuGraphLaunch", handle, true).ok());
  EXPECT_EQ(take(handle, 1).error().kind, ErrorKind::timeout);
  ASSERT_TRUE(client_.enter_launch("cuGraphLaunch", handle, true).ok());
  for (int launch = 0; launch < 2; ++launch) client_.leave_launch(handle);
  EXPECT_TRUE(client_.quiesce(Deadline::after_ms(0)).ok());
  EXPECT_TRUE(take(handle, 0).ok());
}

}  // namespace
}  // namespace amem
