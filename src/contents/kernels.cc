// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "contents/kernels.h"

#include <algorithm>

#include "base/log.h"
#include "base/seeded_fault.h"
#include "driver/device_work.h"

namespace amem {
namespace {

constexpr unsigned kHostAllocForKernels = 1 | 2;  // CU_MEMHOSTALLOC_PORTABLE and _DEVICEMAP

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

Status Kernels::load_table() {
  if (table_on_device_ != 0) return ok_status();
  if (table_ == nullptr) {
    void* table = nullptr;
    AMEM_TRY(driver_status(
        driver_,
        driver_.cuMemHostAlloc(&table, kMostPagesAtOnce * sizeof *table_, kHostAllocForKernels),
        "cuMemHostAlloc()"));
    table_ = static_cast<DeviceAddress*>(table);
  }
  const DriverResult result = driver_.cuMemHostGetDevicePointer_v2(&table_on_device_, table_, 0);
  if (result == driver_result::kSuccess) return ok_status();
  table_on_device_ = 0;
  return driver_error(driver_, result, "cuMemHostGetDevicePointer()");
}

Status Kernels::find_zero_pages(const std::vector<DeviceAddress>& pages, DriverStream stream,
                                std::vector<bool>* is_zero) {
  is_zero->clear();
  AMEM_TRY(exiting_.check());
  Status able = load_table();
  if (able.ok()) able = load();
  for (size_t first = 0; able.ok() && first < pages.size(); first += kMostPagesAtOnce) {
    const size_t count = std::min(kMostPagesAtOnce, pages.size() - first);
    std::copy_n(&pages[first], count, table_);
    AMEM_TRY(exiting_.check());
    able = launch(zero_pages_, count, kZeroPagesThreads, &table_on_device_, stream);
    if (!able.ok()) break;
    AMEM_TRY(wait_for_stream(driver_, exiting_, device_, stream, "the search for zero pages"));
    for (size_t i = 0; i < count; ++i) is_zero->push_back(table_[i] == 0);
  }
  if (!able.ok()) {
    is_zero->clear();
    if (!said_)
      AMEM_LOG(info, device_, "zero pages are copied too, because the search for them failed (%s)",
               able.error().message.c_str());
    said_ = true;
  } else if (seeded_fault("take_all_for_zero")) {
    is_zero->assign(pages.size(), true);
  }
  return ok_status();
}

Status Kernels::make_small_copies(SmallCopyList& list, size_t count, DriverStream stream) {
  AMEM_TRY(load());
  return launch(small_copies_, count, kSmallCopiesThreads, &list, stream);
}

}  // namespace amem
