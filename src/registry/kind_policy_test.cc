// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "registry/kind_policy.h"

#include <gtest/gtest.h>

namespace amem {
namespace {

using Payload = KindSettings::Payload;
constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kAllFifos = 10 * kMiB;  // a receiving side with the FIFOs of all protocols

Allocation exported(size_t size_bytes, bool is_buffer = true) {
  Allocation allocation;
  allocation.size_bytes = size_bytes;
  allocation.nonce = 1;
  allocation.is_buffer = is_buffer;
  return allocation;
}

TEST(KindPolicy, SendingSidesHaveNoPayload) {
  EXPECT_EQ(kind_for_pause(exported(2 * kMiB), {}), Kind::header);
}

// A message that was sent may wait there for its receiver.
TEST(KindPolicy, FifosAreKept) {
  for (const size_t size_bytes : {kAllFifos, 6 * kMiB})
    EXPECT_EQ(kind_for_pause(exported(size_bytes), {}), Kind::keep) << size_bytes;
}

TEST(KindPolicy, FifosOfThoseInStepAreNot) {
  Allocation buffer = exported(kAllFifos), window = exported(kAllFifos, false);
  buffer.in_step = window.in_step = true;

  EXPECT_EQ(kind_for_pause(buffer, {}), Kind::header);
  EXPECT_EQ(kind_for_pause(buffer, {Payload::kept, {}}), Kind::keep);
  EXPECT_EQ(kind_for_pause(window, {}), Kind::keep);
}

TEST(KindPolicy, EverythingElseIsKept) {
  for (const size_t size_bytes : {kSlotBytes, 4 * kMiB, 8 * kMiB, 12 * kMiB})
    EXPECT_EQ(kind_for_pause(exported(size_bytes), {}), Kind::keep) << size_bytes;
  Allocation local = exported(kAllFifos);
  local.nonce = 0;
  EXPECT_EQ(kind_for_pause(local, {}), Kind::keep);
  // Windows and signals.
  for (const size_t size_bytes : {kAllFifos, 2 * kMiB})
    EXPECT_EQ(kind_for_pause(exported(size_bytes, false), {}), Kind::keep) << size_bytes;
}

TEST(KindPolicy, SettingsForceAndForbid) {
  EXPECT_EQ(kind_for_pause(exported(kAllFifos), {Payload::dropped, {}}), Kind::header);
  EXPECT_EQ(kind_for_pause(exported(kAllFifos, false), {Payload::dropped, {}}), Kind::header);
  EXPECT_EQ(kind_for_pause(exported(2 * kMiB, false), {Payload::dropped, {}}), Kind::keep);
  EXPECT_EQ(kind_for_pause(exported(2 * kMiB), {Payload::kept, {}}), Kind::keep);
}

TEST(KindPolicy, SizesFollowTheFifosOfTheEnvironment) {
  const FifoSizes small{1 << 15, 1 << 16, 1 << 17};
  EXPECT_EQ(kind_for_pause(exported(kAllFifos), {Payload::dropped, small}), Kind::keep);
  EXPECT_EQ(kind_for_pause(exported(2 * kMiB), {Payload::dropped, small}), Kind::header);
  EXPECT_EQ(kind_for_pause(exported(2 * kMiB), {Payload::needed, small}), Kind::keep)
      << "it may be a receiving side";
}

TEST(KindPolicy, PinnedStaysPinnedForItsFirstReason) {
  Allocation allocation = exported(kAllFifos);
  pin(allocation, "registered with a NIC");
  pin(allocation, "multicast");

  EXPECT_EQ(kind_for_pause(allocation, {}), Kind::pinned);
  EXPECT_STREQ(allocation.pinned_because, "registered with a NIC");
}

}  // namespace
}  // namespace amem
