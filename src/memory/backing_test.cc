// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "memory/backing.h"

#include <gtest/gtest.h>

#include <utility>

namespace amem {
namespace {

constexpr int32_t kNone = 0, kRead = 1, kReadWrite = 3;

Placement placed(bool accessible, std::vector<Access> access) {
  return {0x7000'0000, 65536, std::move(access), true, accessible};
}

// A buffer may have lost its owner's mapping and still have that for another GPU.
TEST(Placement, IsReadableByADeviceThatHasAccess) {
  const Access other{{kLocationDevice, 1}, kReadWrite};
  const Access full{{kLocationDevice, 0}, kReadWrite}, none{{kLocationDevice, 0}, kNone};
  const Access of_host{{kLocationDevice + 1, 0}, kReadWrite};

  EXPECT_TRUE(placed(true, {other, full}).is_readable_by(0));
  EXPECT_TRUE(placed(true, {{{kLocationDevice, 0}, kRead}}).is_readable_by(0));
  EXPECT_FALSE(placed(true, {}).is_readable_by(0));
  EXPECT_FALSE(placed(true, {other}).is_readable_by(0));
  EXPECT_FALSE(placed(true, {other, none}).is_readable_by(0));
  EXPECT_FALSE(placed(true, {of_host}).is_readable_by(0));
  EXPECT_FALSE(placed(false, {full}).is_readable_by(0));
}

// NCCL maps the windows of all GPUs of a process for each of them (dev_runtime.cc@v2.28.9-1).
TEST(Backing, IsCopiedWhereItsOwnDeviceHasAccess) {
  const Access own{{kLocationDevice, 0}, kReadWrite}, other{{kLocationDevice, 1}, kReadWrite};
  Backing backing;
  backing.properties.location = {kLocationDevice, 0};
  EXPECT_EQ(nullptr, backing.placement_for_copies());

  backing.placements = {placed(true, {other})};
  EXPECT_EQ(&backing.placements[0], backing.placement_for_copies()) << "the only one";

  backing.placements.push_back(placed(true, {own}));
  EXPECT_EQ(&backing.placements[1], backing.placement_for_copies());
}

}  // namespace
}  // namespace amem
