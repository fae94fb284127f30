// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "contents/kernels.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace amem {
namespace {

constexpr int32_t kNone = 0, kRead = 1, kReadWrite = 3;

Placement placed(bool accessible, std::vector<Access> access) {
  return {0x7000'0000, 65536, std::move(access), true, accessible};
}

// A buffer may have lost its owner's mapping and still have that for another GPU.
TEST(KernelCanGo, OnlyWithAccessOfThatDeviceThatWasGranted) {
  const Access other{{kLocationDevice, 1}, kReadWrite};
  const Access full{{kLocationDevice, 0}, kReadWrite}, none{{kLocationDevice, 0}, kNone};
  const Access of_host{{kLocationDevice + 1, 0}, kReadWrite};

  for (const auto may_go : {is_readable, is_writable}) {
    EXPECT_TRUE(may_go(placed(true, {other, full}), 0));
    EXPECT_FALSE(may_go(placed(true, {}), 0));
    EXPECT_FALSE(may_go(placed(true, {other}), 0));
    EXPECT_FALSE(may_go(placed(true, {other, none}), 0));
    EXPECT_FALSE(may_go(placed(true, {of_host}), 0));
    EXPECT_FALSE(may_go(placed(false, {full}), 0));
  }
  const Placement read_only = placed(true, {{{kLocationDevice, 0}, kRead}});
  EXPECT_TRUE(is_readable(read_only, 0));
  EXPECT_FALSE(is_writable(read_only, 0));
}

/// What the fake driver was asked for, and how it answers.
struct {
  std::string failing;  ///< a function, or a kernel that is not found
  std::vector<std::string> launched;
  int loads, unloads;
} g_gpu;

char g_module, g_kernels[2];
constexpr const char* kNames[] = {"amem_zero_pages", "amem_small_copies"};

DriverResult answer(const std::string& name) {
  return g_gpu.failing == name ? driver_result::kUnknown : driver_result::kSuccess;
}

Driver fake_driver() {
  Driver driver;
  driver.cuGetErrorName = [](DriverResult, const char** name) {
    *name = "CUDA_ERROR_UNKNOWN";
    return driver_result::kSuccess;
  };
  driver.cuModuleLoadData = [](DriverModule* module, const void*) {
    ++g_gpu.loads;
    *module = reinterpret_cast<DriverModule>(&g_module);
    return answer("cuModuleLoadData");
  };
  driver.cuModuleUnload = [](DriverModule module) {
    EXPECT_EQ(module, reinterpret_cast<DriverModule>(&g_module));
    ++g_gpu.unloads;
    return driver_result::kSuccess;
  };
  driver.cuModuleGetFunction = [](DriverKernel* kernel, DriverModule, const char* name) {
    for (int i = 0; i < 2; ++i)
      if (name == std::string(kNames[i])) *kernel = reinterpret_cast<DriverKernel>(&g_kernels[i]);
    return answer(name);
  };
  driver.cuLaunchKernel = [](DriverKernel kernel, unsigned blocks, unsigned, unsigned,
                             unsigned threads, unsigned, unsigned, unsigned, DriverStream, void**,
                             void**) {
    g_gpu.launched.push_back(std::string(kNames[reinterpret_cast<char*>(kernel) - g_kernels]) +
                             " " + std::to_string(blocks) + "x" + std::to_string(threads));
    return answer("cuLaunchKernel");
  };
  return driver;
}

class KernelsTest : public testing::Test {
 protected:
  KernelsTest() { g_gpu = {}; }

  const Driver driver_ = fake_driver();
  const ExitFlag exiting_;
  Kernels kernels_{driver_, 0, exiting_};
  SmallCopyList list_{};
};

TEST_F(KernelsTest, AreLoadedOnce) {
  ASSERT_TRUE(kernels_.make_small_copies(list_, 70, nullptr).ok());
  ASSERT_TRUE(kernels_.make_small_copies(list_, 3, nullptr).ok());

  EXPECT_EQ(g_gpu.launched,
            (std::vector<std::string>{"amem_small_copies 70x256", "amem_small_copies 3x256"}));
  EXPECT_EQ(g_gpu.loads, 1);
  EXPECT_EQ(g_gpu.unloads, 0);
}

// A module without one of them is no use, and must not stay.
TEST_F(KernelsTest, AreLoadedAgainWhereThatFailed) {
  for (const char* failing : {"cuModuleLoadData", kNames[0], kNames[1]}) {
    g_gpu.failing = failing;
    const Status status = kernels_.make_small_copies(list_, 1, nullptr);
    ASSERT_FALSE(status.ok()) << failing;
    EXPECT_EQ(status.error().kind, ErrorKind::driver);
    EXPECT_NE(status.error().message.find(failing), std::string::npos) << status.error().message;
    EXPECT_TRUE(g_gpu.launched.empty());
  }
  EXPECT_EQ(g_gpu.loads, 3);
  EXPECT_EQ(g_gpu.unloads, 2);

  g_gpu.failing = "";
  EXPECT_TRUE(kernels_.make_small_copies(list_, 1, nullptr).ok());
}

TEST_F(KernelsTest, LaunchThatFailsSaysSo) {
  g_gpu.failing = "cuLaunchKernel";

  const Status status = kernels_.make_small_copies(list_, 70, nullptr);

  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("cuLaunchKernel(70 blocks)"), std::string::npos)
      << status.error().message;
}

}  // namespace
}  // namespace amem
