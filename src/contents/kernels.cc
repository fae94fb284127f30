// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "contents/kernels.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/test_seam.h"
#include "driver/device_work.h"

namespace amem {
namespace {

constexpr unsigned kHostAllocForKernels = 1 | 2;  // CU_MEMHOSTALLOC_PORTABLE and _DEVICEMAP
static_assert(kSlotBytes == size_t{64} << 10, "the page of both kernels");

}  // namespace

Status Kernels::load(Kernel& kernel) {
  if (kernel.table == nullptr) {
    void* table = nullptr;
    AMEM_TRY(driver_.check(
        driver_.cuMemHostAlloc(&table, kMaxPagesAtOnce * kernel.entry_bytes, kHostAllocForKernels),
        "cuMemHostAlloc()"));
    kernel.table = static_cast<DeviceAddress*>(table);
  }
  if (kernel.table_on_device == 0) {
    DeviceAddress address = 0;
    AMEM_TRY(driver_.check(driver_.cuMemHostGetDevicePointer_v2(&address, kernel.table, 0),
                           "cuMemHostGetDevicePointer()"));
    kernel.table_on_device = address;
  }
  if (kernel.function != nullptr) return ok_status();
  DriverModule module = nullptr;
  AMEM_TRY(driver_.check(driver_.cuModuleLoadData(&module, kernel.image), "cuModuleLoadData()"));
  Status found = driver_.check(driver_.cuModuleGetFunction(&kernel.function, module, kernel.name),
                               "cuModuleGetFunction(%s)", kernel.name);
  if (found.ok()) return found;
  kernel.function = nullptr;
  driver_.cuModuleUnload(module);
  return found;
}

// The kernel that looks for zero pages takes only the first parameter.
Status Kernels::launch(Kernel& kernel, size_t page_count, DriverStream stream) {
  DeviceAddress hashes = kernel.table_on_device + kMaxPagesAtOnce * sizeof(DeviceAddress);
  auto count = static_cast<unsigned>(page_count);
  void* parameters[] = {&kernel.table_on_device, &hashes, &count};
  const unsigned blocks = (count + kernel.pages_per_block - 1) / kernel.pages_per_block;
  return driver_.check(driver_.cuLaunchKernel(kernel.function, blocks, 1, 1, kKernelThreads, 1, 1,
                                              0, stream, parameters, nullptr),
                       "cuLaunchKernel(%u blocks)", blocks);
}

Result<bool> Kernels::run(Kernel& kernel, const std::vector<DeviceAddress>& pages,
                          DriverStream stream, const std::function<void(size_t)>& take) {
  AMEM_TRY(exiting_.check());
  Status able = load(kernel);
  for (size_t first = 0; able.ok() && first < pages.size(); first += kMaxPagesAtOnce) {
    const size_t count = std::min(kMaxPagesAtOnce, pages.size() - first);
    std::copy_n(&pages[first], count, kernel.table);
    AMEM_TRY(exiting_.check());
    able = launch(kernel, count, stream);
    if (!able.ok()) break;
    AMEM_TRY(wait_for_stream(driver_, exiting_, device_, stream, kernel.step));
    take(count);
  }
  if (!able.ok() && !std::exchange(kernel.reported, true))
    AMEM_LOG(info, device_, "%s%s)", kernel.effect, able.error().message.c_str());
  return able.ok();
}

Result<std::vector<bool>> Kernels::find_zero_pages(const std::vector<DeviceAddress>& pages,
                                                   DriverStream stream) {
  std::vector<bool> is_zero;
  const bool ran = AMEM_TRY(run(zero_pages_, pages, stream, [&](size_t count) {
    for (size_t i = 0; i < count; ++i) is_zero.push_back(zero_pages_.table[i] == 0);
  }));
  if (ran && seeded_fault("take_all_for_zero")) is_zero.assign(pages.size(), true);
  return ran ? is_zero : std::vector<bool>();
}

Result<std::vector<PageHash>> Kernels::hash_pages(const std::vector<DeviceAddress>& pages,
                                                  DriverStream stream) {
  std::vector<PageHash> hashes;
  const bool ran = AMEM_TRY(run(hash_pages_, pages, stream, [&](size_t count) {
    const auto* const found =
        reinterpret_cast<const PageHash*>(hash_pages_.table + kMaxPagesAtOnce);
    hashes.insert(hashes.end(), found, found + count);
  }));
  return ran ? hashes : std::vector<PageHash>();
}

}  // namespace amem
