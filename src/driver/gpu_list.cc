// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "driver/gpu_list.h"

namespace amem {
namespace {

// cuda.h, CUdevice_attribute.
constexpr int kComputeMajor = 75, kComputeMinor = 76;
constexpr int kVirtualMemory = 102, kFdHandles = 103;

}  // namespace

Result<std::vector<Gpu>> list_gpus(const Driver& driver) {
  AMEM_TRY(driver.check(driver.cuInit(0), "cuInit(0)"));
  int count = 0;
  AMEM_TRY(driver.check(driver.cuDeviceGetCount(&count), "cuDeviceGetCount()"));
  std::vector<Gpu> gpus;
  for (int device = 0; device < count; ++device) {
    const auto attribute = [&](int which) {
      int value = 0;
      const DriverResult result = driver.cuDeviceGetAttribute(&value, which, device);
      return result == driver_result::kSuccess ? value : 0;
    };
    char name[128] = "?";
    Gpu& gpu = gpus.emplace_back();
    driver.cuDeviceGetName(name, sizeof name, device);
    driver.cuDeviceTotalMem_v2(&gpu.memory_bytes, device);
    gpu.name = name;
    gpu.compute = 10 * attribute(kComputeMajor) + attribute(kComputeMinor);
    gpu.has_virtual_memory = attribute(kVirtualMemory) != 0 && attribute(kFdHandles) != 0;
  }
  return gpus;
}

}  // namespace amem
