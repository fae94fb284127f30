// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include <gtest/gtest.h>

#include "clients/nccl/nccl_client.h"
#include "tests/support/nccl_objects.h"
#include "tests/support/no_exchange.h"

namespace amem {
namespace {

class BoundMemory : public testing::Test {
 protected:
  Kind kind_after_quiesce() {
    AllocationId id = 0;
    {
      MutexLock lock(registry_.mutex);
      Allocation& own = registry_.add_local(kBytes, {}, 7, kBytes, kNcclTag);
      registry_.backing_of(own).multicast_binds.push_back({0, 1, 0, 0, kBytes, true});
      id = own.id;
    }
    EXPECT_TRUE(nccl_.quiesce(Deadline::after_ms(1000)).ok());
    nccl_.reopen();
    MutexLock lock(registry_.mutex);
    return registry_.find(id)->kind;
  }

  static constexpr size_t kBytes = size_t{2} << 20;
  Driver driver_{};
  Registry registry_;
  PeerTable peers_;
  NoExchange exchange_;
  NcclObjects objects_{driver_, registry_, exchange_, peers_};
  NcclClient& nccl_ = objects_.client;
};

// Members of a communicator without an identity cannot be asked to stop their work.
TEST_F(BoundMemory, StaysWhileACommunicatorHasNoIdentity) {
  EXPECT_EQ(kind_after_quiesce(), Kind::keep);
  nccl_.gate.add_communicator(this, kNoIdentity);
  EXPECT_EQ(kind_after_quiesce(), Kind::persistent);
}

}  // namespace
}  // namespace amem
