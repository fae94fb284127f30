// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/symmetric/kernel_set.h"

#include <string>

#include "clients/symmetric/kernels_ptx.h"

namespace amem {

Result<std::unique_ptr<KernelSet>> KernelSets::load() {
  DriverModule module = nullptr;
  AMEM_TRY(driver_status(driver_, driver_.cuModuleLoadData(&module, symmetric_kernels_ptx()),
                         "cuModuleLoadData(kernels of symmetric memory)"));
  auto set = std::make_unique<KernelSet>();
  Status found = ok_status();
  const auto find = [&](const std::string& name, DriverKernel* kernel) {
    const std::string whole = "amem_symmetric_" + name;
    if (found.ok())
      found = driver_status(driver_, driver_.cuModuleGetFunction(kernel, module, whole.c_str()),
                            "cuModuleGetFunction(%s)", whole.c_str());
  };
  find("barrier", &set->barrier);
  find("put_signal", &set->put_signal);
  find("wait_signal", &set->wait_signal);
  find("gather", &set->gather);
  static constexpr const char* kTypes[kElementTypes] = {"float32", "float16", "bfloat16"};
  for (int type = 0; type < kElementTypes; ++type) {
    find(std::string("sum_") + kTypes[type], &set->sum[type]);
    find(std::string("two_shot_") + kTypes[type], &set->two_shot[type]);
    find(std::string("small_all_reduce_") + kTypes[type], &set->small_all_reduce[type]);
  }
  if (found.ok()) return set;
  driver_.cuModuleUnload(module);
  return std::move(found.error());
}

Result<const KernelSet*> KernelSets::for_current_context() {
  DriverContext context = nullptr;
  AMEM_TRY(driver_status(driver_, driver_.cuCtxGetCurrent(&context), "cuCtxGetCurrent()"));
  MutexLock lock(mutex_);
  std::unique_ptr<KernelSet>& set = sets_[context];
  if (set == nullptr) {
    Result<std::unique_ptr<KernelSet>> loaded = load();
    if (!loaded.ok()) return std::move(loaded.error());
    set = std::move(loaded.value());
  }
  return set.get();
}

}  // namespace amem
