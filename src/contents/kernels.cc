// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "contents/kernels.h"

#include <algorithm>

#include "base/log.h"
#include "base/test_seam.h"
#include "driver/device_work.h"

namespace amem {
namespace {

constexpr unsigned kHostAllocForKernels = 1 | 2;  // CU_MEMHOSTALLOC_PORTABLE and _DEVICEMAP

}  // namespace

Status Kernels::load() {
  if (zero_pages_ != nullptr) return ok_status();
  DriverModule module = nullptr;
  AMEM_TRY(
      driver_status(driver_, driver_.cuModuleLoadData(&module, kKernelsPtx), "cuModuleLoadData()"));
  const DriverResult found = driver_.cuModuleGetFunction(&zero_pages_, module, kZeroPagesKernel);
  if (found == driver_result::kSuccess) return ok_status();
  zero_pages_ = nullptr;
  driver_.cuModuleUnload(module);
  return driver_error(driver_, found, "cuModuleGetFunction(%s)", kZeroPagesKernel);
}

Status Kernels::launch(size_t page_count, DriverStream stream) {
  void* parameters[] = {&table_on_device_};
  return driver_status(
      driver_,
      driver_.cuLaunchKernel(zero_pages_, static_cast<unsigned>(page_count), 1, 1,
                             kZeroPagesThreads, 1, 1, 0, stream, parameters, nullptr),
      "cuLaunchKernel(%zu blocks)", page_count);
}

Status Kernels::load_table() {
  if (table_on_device_ != 0) return ok_status();
  if (table_ == nullptr) {
    void* table = nullptr;
    AMEM_TRY(driver_status(
        driver_,
        driver_.cuMemHostAlloc(&table, kMaxPagesAtOnce * sizeof *table_, kHostAllocForKernels),
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
  for (size_t first = 0; able.ok() && first < pages.size(); first += kMaxPagesAtOnce) {
    const size_t count = std::min(kMaxPagesAtOnce, pages.size() - first);
    std::copy_n(&pages[first], count, table_);
    AMEM_TRY(exiting_.check());
    able = launch(count, stream);
    if (!able.ok()) break;
    AMEM_TRY(wait_for_stream(driver_, exiting_, device_, stream, "the search for zero pages"));
    for (size_t i = 0; i < count; ++i) is_zero->push_back(table_[i] == 0);
  }
  if (!able.ok()) {
    is_zero->clear();
    if (!reported_)
      AMEM_LOG(info, device_, "zero pages are copied too, because the search for them failed (%s)",
               able.error().message.c_str());
    reported_ = true;
  } else if (seeded_fault("take_all_for_zero")) {
    is_zero->assign(pages.size(), true);
  }
  return ok_status();
}

}  // namespace amem
