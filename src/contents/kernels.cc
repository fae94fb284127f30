// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "contents/kernels.h"

#include <algorithm>

namespace amem {
namespace {

// CU_MEM_ACCESS_FLAGS_PROT_READ and _READWRITE. READ is a bit of READWRITE.
constexpr int32_t kRead = 1;
constexpr int32_t kReadWrite = 3;

bool has_access(const Placement& placement, int device, int32_t flags) {
  const Location wanted{kLocationDevice, device};
  return placement.accessible &&
         std::any_of(placement.access.begin(), placement.access.end(), [&](const Access& access) {
           return access.location == wanted && (access.flags & flags) == flags;
         });
}

}  // namespace

bool is_readable(const Placement& placement, int device) {
  return has_access(placement, device, kRead);
}

bool is_writable(const Placement& placement, int device) {
  return has_access(placement, device, kReadWrite);
}

Status Kernels::load() {
  if (small_copies_ != nullptr) return ok_status();
  DriverModule module = nullptr;
  AMEM_TRY(
      driver_status(driver_, driver_.cuModuleLoadData(&module, kKernelsPtx), "cuModuleLoadData()"));
  DriverKernel kernels[2] = {};
  const char* const names[] = {kZeroPagesKernel, kSmallCopiesKernel};
  for (int i = 0; i < 2; ++i) {
    Status found =
        driver_status(driver_, driver_.cuModuleGetFunction(&kernels[i], module, names[i]),
                      "cuModuleGetFunction(%s)", names[i]);
    if (found.ok()) continue;
    driver_.cuModuleUnload(module);
    return found;
  }
  zero_pages_ = kernels[0];
  small_copies_ = kernels[1];
  return ok_status();
}

Status Kernels::launch(DriverKernel kernel, size_t block_count, unsigned thread_count,
                       void* parameter, DriverStream stream) {
  void* parameters[] = {parameter};
  return driver_status(driver_,
                       driver_.cuLaunchKernel(kernel, static_cast<unsigned>(block_count), 1, 1,
                                              thread_count, 1, 1, 0, stream, parameters, nullptr),
                       "cuLaunchKernel(%zu blocks)", block_count);
}

Status Kernels::find_zero_pages(DeviceAddress table, size_t page_count, DriverStream stream) {
  AMEM_TRY(load());
  return launch(zero_pages_, page_count, kZeroPagesThreads, &table, stream);
}

Status Kernels::make_small_copies(SmallCopyList& list, size_t count, DriverStream stream) {
  AMEM_TRY(load());
  return launch(small_copies_, count, kSmallCopiesThreads, &list, stream);
}

}  // namespace amem
