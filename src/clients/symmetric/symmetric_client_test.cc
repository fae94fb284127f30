// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/symmetric/symmetric_client.h"

#include <gtest/gtest.h>

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

  Registry registry_;
  SymmetricClient client_{registry_};
  symmetric::detail::Report report_{};
};

// Its end was reported while the ranks met, before there was a handle.
TEST_F(SymmetricClientTest, HandleOfAPeerThatHasEndedFails) {
  client_.peer_ended(kPeer, "process 7, has ended");
  EXPECT_TRUE(client_.status_of(client_.add(handle_of({{kOther, 8}}))).ok());
  EXPECT_EQ(report_.abort, 0u);
  const void* const dead = client_.add(handle_of({{kOther, 8}, {kPeer, 7}}));
  EXPECT_EQ(client_.status_of(dead).error().message, "a rank of the group, process 7, has ended");
  EXPECT_EQ(report_.abort, 1u) << "its kernels would wait";
}

TEST_F(SymmetricClientTest, NameOfATakenHandleIsNeverThatOfAnother) {
  const void* const first = client_.add(handle_of({}));
  std::unique_ptr<SymmetricHandle> taken = client_.take(first);
  EXPECT_NE(client_.add(handle_of({})), first);
  EXPECT_EQ(client_.look_up(first).error().kind, ErrorKind::misuse);
  EXPECT_EQ(client_.add(std::move(taken)), first) << "it could not be released";
}

}  // namespace
}  // namespace amem
