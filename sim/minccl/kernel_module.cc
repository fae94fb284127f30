// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sim/minccl/kernel_module.h"

#include <map>
#include <mutex>

namespace amem::minccl {
namespace {

// The stack limit of a context after collectives of NCCL 2.28 and PyTorch was 1744 to 1984 bytes.
constexpr char kPtx[] = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry amem_sim_native(.param .u64 function, .param .u64 argument)
{
  .local .align 16 .b8 stack[1984];
  ret;
}
)";

}  // namespace

ncclResult_t kernel_in_context(CuContext context, CuFunction* kernel) {
  static std::mutex mutex;
  static auto* loaded = new std::map<CuContext, CuFunction>;  // outlives every thread
  std::lock_guard lock(mutex);
  CuFunction& found = (*loaded)[context];
  if (found == nullptr) {
    CuModule module = nullptr;
    MINCCL_CU(module_load_data(&module, kPtx));
    MINCCL_CU(module_get_function(&found, module, "amem_sim_native"));
  }
  *kernel = found;
  return ncclSuccess;
}

}  // namespace amem::minccl
