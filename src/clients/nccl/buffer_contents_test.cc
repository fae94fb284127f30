// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/nccl/buffer_contents.h"

#include <gtest/gtest.h>

namespace amem {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kAllFifos = 10 * kMiB;  // a receiving side with the FIFOs of all protocols
constexpr ContentSettings kHeadersOnly{true, {}};

Allocation exported(size_t size_bytes, bool is_buffer = true) {
  Allocation allocation;
  allocation.size_bytes = size_bytes;
  allocation.nonce = 1;
  allocation.is_buffer = is_buffer;
  return allocation;
}

// A message that was sent may wait there for its receiver.
TEST(KeptBytes, AreAll) {
  for (const size_t size_bytes : {kAllFifos, 6 * kMiB, 4 * kMiB, 2 * kMiB, kSlotBytes})
    EXPECT_EQ(kept_bytes(exported(size_bytes), {}), size_bytes);
}

TEST(KeptBytes, OfWhatIsDiscardedOrNeverLeavesAreNone) {
  Allocation allocation = exported(kAllFifos);
  for (const Kind kind : {Kind::discard, Kind::persistent}) {
    allocation.kind = kind;
    EXPECT_EQ(kept_bytes(allocation, {}), 0u);
  }
}

TEST(KeptBytes, OfP2pBuffersAreTheHeadersOnRequest) {
  for (const size_t size_bytes : {kAllFifos, 6 * kMiB, 2 * kMiB})
    EXPECT_EQ(kept_bytes(exported(size_bytes), kHeadersOnly), kHeaderBytes) << size_bytes;
  EXPECT_EQ(kept_bytes(exported(kAllFifos, false), kHeadersOnly), kHeaderBytes);
}

TEST(KeptBytes, OfEverythingElseAreAllOnRequestToo) {
  for (const size_t size_bytes : {kSlotBytes, 4 * kMiB, 8 * kMiB, 12 * kMiB})
    EXPECT_EQ(kept_bytes(exported(size_bytes), kHeadersOnly), size_bytes);
  Allocation local = exported(kAllFifos);
  local.nonce = 0;
  EXPECT_EQ(kept_bytes(local, kHeadersOnly), kAllFifos);
  // Windows and signals.
  EXPECT_EQ(kept_bytes(exported(2 * kMiB, false), kHeadersOnly), 2 * kMiB);
}

TEST(KeptBytes, FollowTheFifosOfTheEnvironment) {
  const ContentSettings small{true, {1 << 15, 1 << 16, 1 << 17}};
  EXPECT_EQ(kept_bytes(exported(kAllFifos), small), kAllFifos);
  EXPECT_EQ(kept_bytes(exported(2 * kMiB, false), small), kHeaderBytes);
}

}  // namespace
}  // namespace amem
