// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "driver/gpu_list.h"

#include <dlfcn.h>

namespace amem {
namespace {

// cuda.h, CUdevice_attribute.
constexpr int kComputeMajor = 75, kComputeMinor = 76;
constexpr int kVirtualMemory = 102, kFdHandles = 103;

/// Functions that only the list needs, and that every driver has.
template <typename Function>
Function find(const char* name) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<Function>(dlsym(library, name));
}

}  // namespace

Result<std::vector<Gpu>> list_gpus(const Driver& driver) {
  const auto init = find<DriverResult (*)(unsigned)>("cuInit");
  const auto count_devices = find<DriverResult (*)(int*)>("cuDeviceGetCount");
  const auto get_name = find<DriverResult (*)(char*, int, int)>("cuDeviceGetName");
  const auto get_bytes = find<DriverResult (*)(size_t*, int)>("cuDeviceTotalMem_v2");
  AMEM_TRY(driver_status(driver, init(0), "cuInit(0)"));
  int count = 0;
  AMEM_TRY(driver_status(driver, count_devices(&count), "cuDeviceGetCount()"));
  std::vector<Gpu> gpus;
  for (int device = 0; device < count; ++device) {
    const auto attribute = [&](int which) {
      int value = 0;
      const DriverResult result = driver.cuDeviceGetAttribute(&value, which, device);
      return result == driver_result::kSuccess ? value : 0;
    };
    char name[128] = "?";
    Gpu& gpu = gpus.emplace_back();
    get_name(name, sizeof name, device);
    get_bytes(&gpu.memory_bytes, device);
    gpu.name = name;
    gpu.compute = 10 * attribute(kComputeMajor) + attribute(kComputeMinor);
    gpu.has_virtual_memory = attribute(kVirtualMemory) != 0 && attribute(kFdHandles) != 0;
  }
  return gpus;
}

}  // namespace amem
