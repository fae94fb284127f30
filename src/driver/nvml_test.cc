// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "driver/nvml.h"

#include <gtest/gtest.h>

#include <cstring>

namespace amem {
namespace {

TEST(MemoryHolders, AreDescribedWithoutOurselves) {
  const std::vector<MemoryHolder> holders = {
      {10, size_t{5} << 20}, {11, size_t{7} << 20}, {12, std::nullopt}};

  EXPECT_EQ(describe_holders(holders, 10),
            "process 11 holds 7 MiB, process 12 holds an unknown amount");
  EXPECT_EQ(describe_holders({{10, std::nullopt}}, 10), "");
}

TEST(MemoryHolders, OfADeviceWithoutUuidAreNotKnown) {
  Driver driver;
  driver.cuDeviceGetUuid_v2 = [](void*, int) { return driver_result::kUnknown; };

  EXPECT_TRUE(ask_nvml(gpu_uuid(driver, 0)).holders.empty());
}

TEST(MemoryHolders, OfADeviceThatNvmlDoesNotKnowAreNotKnown) {
  Driver driver;
  driver.cuDeviceGetUuid_v2 = [](void* uuid, int) {
    memset(uuid, 0xff, 16);
    return driver_result::kSuccess;
  };

  EXPECT_TRUE(ask_nvml(gpu_uuid(driver, 0)).holders.empty());
}

}  // namespace
}  // namespace amem
