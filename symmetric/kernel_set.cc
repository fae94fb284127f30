// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "symmetric/kernel_set.h"

namespace amem::symmetric {

namespace {

constexpr const char* kTypes[kElementTypes] = {"float32", "float16", "bfloat16"};

}  // namespace

Status KernelSets::load(const char* ptx, const Wanted& wanted) {
  DriverModule module = nullptr;
  AMEM_TRY(driver_status(driver_, driver_.cuModuleLoadData(&module, ptx),
                         "cuModuleLoadData(kernels of symmetric memory)"));
  for (const auto& [name, kernel] : wanted) {
    const std::string whole = "amem_symmetric_" + name;
    Status found =
        driver_status(driver_, driver_.cuModuleGetFunction(kernel, module, whole.c_str()),
                      "cuModuleGetFunction(%s)", whole.c_str());
    if (found.ok()) continue;
    driver_.cuModuleUnload(module);
    return found;
  }
  return ok_status();
}

Result<std::unique_ptr<KernelSet>> KernelSets::load_kernels() {
  auto set = std::make_unique<KernelSet>();
  Wanted wanted{{"barrier", &set->barrier},
                {"put_signal", &set->put_signal},
                {"wait_signal", &set->wait_signal},
                {"gather", &set->gather}};
  for (int type = 0; type < kElementTypes; ++type) {
    wanted[std::string("sum_") + kTypes[type]] = &set->sum[type];
    wanted[std::string("two_shot_") + kTypes[type]] = &set->two_shot[type];
    wanted[std::string("small_all_reduce_") + kTypes[type]] = &set->small_all_reduce[type];
  }
  AMEM_TRY(load(symmetric_kernels_ptx(), wanted));
  return set;
}

Result<KernelSet::Multimem> KernelSets::load_multimem() {
  KernelSet::Multimem kernels;
  Wanted wanted{{"multimem_all_gather", &kernels.all_gather}};
  for (int type = 0; type < kElementTypes; ++type)
    wanted[std::string("multimem_all_reduce_") + kTypes[type]] = &kernels.all_reduce[type];
  AMEM_TRY(load(multimem_kernels_ptx(), wanted));
  return kernels;
}

Result<const KernelSet*> KernelSets::for_current_context(bool multimem) {
  DriverContext context = nullptr;
  AMEM_TRY(driver_status(driver_, driver_.cuCtxGetCurrent(&context), "cuCtxGetCurrent()"));
  MutexLock lock(mutex_);
  std::unique_ptr<KernelSet>& set = sets_[context];
  if (set == nullptr) set = AMEM_TRY(load_kernels());
  if (multimem && set->multimem.all_gather == nullptr) set->multimem = AMEM_TRY(load_multimem());
  return set.get();
}

}  // namespace amem::symmetric
