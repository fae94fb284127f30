// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/nccl/buffer_contents.h"

#include <gtest/gtest.h>

#include "tests/support/nccl_objects.h"
#include "tests/support/no_exchange.h"

namespace amem {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kAllFifos = 10 * kMiB;  // a receiving side with the FIFOs of all protocols

size_t kept_bytes(const Allocation& allocation, bool headers_only = false) {
  Driver driver;
  Registry registry;
  NoExchange exchange;
  PeerTable peers;
  NcclClient::Settings settings;
  settings.headers_only = headers_only;
  NcclObjects objects(driver, registry, exchange, peers, {}, settings);
  return total_bytes(objects.client.live_ranges(allocation));
}

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
    EXPECT_EQ(kept_bytes(exported(size_bytes)), size_bytes);
}

TEST(KeptBytes, OfWhatIsDiscardedOrNeverLeavesAreNone) {
  Allocation allocation = exported(kAllFifos);
  for (const Kind kind : {Kind::discard, Kind::persistent}) {
    allocation.kind = kind;
    EXPECT_EQ(kept_bytes(allocation), 0u);
  }
}

TEST(KeptBytes, OfBuffersWithFifosAreTheHeadersOnRequest) {
  for (const size_t size_bytes : {kAllFifos, 6 * kMiB, 4 * kMiB, kP2pUnitBytes + kSlotBytes})
    EXPECT_EQ(kept_bytes(exported(size_bytes), true), kHeaderBytes) << size_bytes;
}

TEST(KeptBytes, OfEverythingElseAreAllOnRequestToo) {
  // Sending sides, and small FIFOs.
  for (const size_t size_bytes : {kSlotBytes, kP2pUnitBytes})
    EXPECT_EQ(kept_bytes(exported(size_bytes), true), size_bytes);
  Allocation local = exported(kAllFifos);
  local.nonce = 0;
  EXPECT_EQ(kept_bytes(local, true), kAllFifos);
  // Windows and signals.
  for (const size_t size_bytes : {kAllFifos, 2 * kMiB})
    EXPECT_EQ(kept_bytes(exported(size_bytes, false), true), size_bytes);
}

}  // namespace
}  // namespace amem
