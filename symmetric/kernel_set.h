// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "symmetric/driver.h"

namespace amem::symmetric {

/// The texts of kernels.ptx and multimem.ptx, for cuModuleLoadData().
const char* symmetric_kernels_ptx();
const char* multimem_kernels_ptx();

/// The element types of the collectives, as amemDataType_t.
inline constexpr int kElementTypes = 3;

/// The kernels of kernels.cu in one context.
struct KernelSet {
  DriverKernel barrier = nullptr;
  DriverKernel put_signal = nullptr;
  DriverKernel wait_signal = nullptr;
  DriverKernel gather = nullptr;
  DriverKernel sum[kElementTypes] = {};
  DriverKernel two_shot[kElementTypes] = {};
  DriverKernel small_all_reduce[kElementTypes] = {};
  /// Those of multimem.cu. For handles with multicast only.
  struct Multimem {
    DriverKernel all_gather = nullptr;
    DriverKernel all_reduce[kElementTypes] = {};
  };
  Multimem multimem;
};

/// The kernels of this process. They are loaded once for each context and never unloaded, because
/// CUDA graphs may contain them. Thread-safe.
class KernelSets {
 public:
  explicit KernelSets(const Driver& driver) : driver_(driver) {}

  /// The kernels for the current context of the calling thread. `multimem`: with those of
  /// multimem.cu, which need compute capability 9.0. Errors: driver.
  Result<const KernelSet*> for_current_context(bool multimem = false);

 private:
  /// Kernels by name, without the prefix, and where they go.
  using Wanted = std::map<std::string, DriverKernel*>;
  Status load(const char* ptx, const Wanted& wanted);
  Result<std::unique_ptr<KernelSet>> load_kernels();
  Result<KernelSet::Multimem> load_multimem();

  const Driver& driver_;
  Mutex mutex_;
  std::map<DriverContext, std::unique_ptr<KernelSet>> sets_ AMEM_GUARDED_BY(mutex_);
};

}  // namespace amem::symmetric
