// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "registry/kind_policy.h"

#include <gtest/gtest.h>

namespace amem {
namespace {

Allocation exported(size_t mib) {
  Allocation allocation;
  allocation.size_bytes = mib << 20;
  allocation.nonce = 1;
  return allocation;
}

TEST(KindPolicy, EverythingIsKeptByDefault) {
  for (size_t mib : {2, 6, 10, 64}) EXPECT_EQ(kind_for_pause(exported(mib), {}), Kind::keep);
}

TEST(KindPolicy, FreeTagDropsThePayloadOfExportedP2pBuffersOnly) {
  const KindSettings free_payload{true};
  EXPECT_EQ(kind_for_pause(exported(10), free_payload), Kind::header);
  EXPECT_EQ(kind_for_pause(exported(6), free_payload), Kind::header);
  EXPECT_EQ(kind_for_pause(exported(2), free_payload), Kind::keep);

  Allocation local = exported(10);
  local.nonce = 0;
  EXPECT_EQ(kind_for_pause(local, free_payload), Kind::keep);
}

TEST(KindPolicy, PinnedStaysPinnedForItsFirstReason) {
  Allocation allocation = exported(10);
  pin(allocation, "registered with a NIC");
  pin(allocation, "multicast");

  EXPECT_EQ(kind_for_pause(allocation, {true}), Kind::pinned);
  EXPECT_STREQ(allocation.pinned_because, "registered with a NIC");
}

}  // namespace
}  // namespace amem
