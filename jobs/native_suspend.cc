// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "jobs/native_suspend.h"

#include <dlfcn.h>

#include <stdexcept>

#include "jobs/collectives.h"

namespace jobs {

namespace {

/// By name, because most versions of NCCL that ranks run with do not have them.
template <typename Function>
Function found(const char* name) {
  const auto function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
  if (function == nullptr) throw std::runtime_error(std::string(name) + " is not in this NCCL");
  return function;
}

}  // namespace

bool nccl_exports(const std::string& function) {
  return dlsym(RTLD_DEFAULT, function.c_str()) != nullptr;
}

void suspend_natively(const std::vector<ncclComm_t>& communicators) {
  // nccl.h of 2.29.7: NCCL_SUSPEND_MEM, the only flag there is.
  constexpr int kSuspendMemory = 0x01;
  const auto suspend = found<ncclResult_t (*)(ncclComm_t, int)>("ncclCommSuspend");
  JOB_NCCL(ncclGroupStart());
  for (ncclComm_t comm : communicators)
    check_nccl(suspend(comm, kSuspendMemory), "ncclCommSuspend");
  JOB_NCCL(ncclGroupEnd());
}

void resume_natively(const std::vector<ncclComm_t>& communicators) {
  const auto resume = found<ncclResult_t (*)(ncclComm_t)>("ncclCommResume");
  JOB_NCCL(ncclGroupStart());
  for (ncclComm_t comm : communicators) check_nccl(resume(comm), "ncclCommResume");
  JOB_NCCL(ncclGroupEnd());
}

}  // namespace jobs
