// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "contents/kernels.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace amem {
namespace {

/// What the fake driver was asked for, and how it answers.
struct {
  std::string failing;  ///< a function
  std::vector<unsigned> launched;
  int loads, unloads;
} g_gpu;

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
    *module = reinterpret_cast<DriverModule>(&g_gpu);
    return answer("cuModuleLoadData");
  };
  driver.cuModuleUnload = [](DriverModule) {
    ++g_gpu.unloads;
    return driver_result::kSuccess;
  };
  driver.cuModuleGetFunction = [](DriverKernel* kernel, DriverModule, const char*) {
    *kernel = reinterpret_cast<DriverKernel>(&g_gpu);
    return answer("cuModuleGetFunction");
  };
  driver.cuMemHostAlloc = [](void** host, size_t size_bytes, unsigned) {
    static std::vector<unsigned char> memory;
    memory.resize(size_bytes);
    *host = memory.data();
    return answer("cuMemHostAlloc");
  };
  driver.cuMemHostGetDevicePointer_v2 = [](DeviceAddress* address, void* host, unsigned) {
    *address = reinterpret_cast<DeviceAddress>(host);
    return answer("cuMemHostGetDevicePointer");
  };
  // Finds every second page zero.
  driver.cuLaunchKernel = [](DriverKernel, unsigned blocks, unsigned, unsigned, unsigned, unsigned,
                             unsigned, unsigned, DriverStream, void** parameters, void**) {
    const DriverResult result = answer("cuLaunchKernel");
    if (result != driver_result::kSuccess) return result;
    g_gpu.launched.push_back(blocks);
    auto* const table = *static_cast<DeviceAddress**>(parameters[0]);
    for (unsigned i = 0; i < blocks; i += 2) table[i] = 0;
    return result;
  };
  driver.cuStreamSynchronize = [](DriverStream) { return driver_result::kSuccess; };
  return driver;
}

class KernelsTest : public testing::Test {
 protected:
  KernelsTest() { g_gpu = {}; }
  /// Empty if the kernel could not run.
  std::vector<bool> find() {
    const Result<std::vector<bool>> is_zero =
        kernels_.find_zero_pages({65536, 131072, 196608}, nullptr);
    EXPECT_TRUE(is_zero.ok());
    return is_zero.value();
  }

  const Driver driver_ = fake_driver();
  const ExitFlag exiting_;
  Kernels kernels_{driver_, 0, exiting_};
};

TEST_F(KernelsTest, AreLoadedOnce) {
  EXPECT_EQ(find(), (std::vector<bool>{true, false, true}));
  EXPECT_EQ(find(), (std::vector<bool>{true, false, true}));

  EXPECT_EQ(g_gpu.launched, (std::vector<unsigned>{3, 3}));
  EXPECT_EQ(g_gpu.loads, 1);
  EXPECT_EQ(g_gpu.unloads, 0);
}

// A module without the kernel is no use, and must not stay.
TEST_F(KernelsTest, AreLoadedAgainWhereThatFailed) {
  for (const char* failing :
       {"cuMemHostAlloc", "cuMemHostGetDevicePointer", "cuModuleLoadData", "cuModuleGetFunction"}) {
    g_gpu.failing = failing;
    EXPECT_TRUE(find().empty()) << failing;
    EXPECT_TRUE(g_gpu.launched.empty());
  }
  EXPECT_EQ(g_gpu.loads, 2);
  EXPECT_EQ(g_gpu.unloads, 1);

  g_gpu.failing = "cuLaunchKernel";
  EXPECT_TRUE(find().empty());
  g_gpu.failing = "";
  EXPECT_EQ(find().size(), 3u);
}

}  // namespace
}  // namespace amem
