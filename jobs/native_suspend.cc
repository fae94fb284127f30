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

namespace {

/// One group, as NCCL's documentation requires; it ends also after an error.
template <typename Call>
void in_group(const std::vector<ncclComm_t>& communicators, const char* name, Call call) {
  JOB_NCCL(ncclGroupStart());
  ncclResult_t result = ncclSuccess;
  for (size_t i = 0; i < communicators.size() && result == ncclSuccess; ++i)
    result = call(communicators[i]);
  const ncclResult_t ended = ncclGroupEnd();
  check_nccl(result, name);
  check_nccl(ended, "ncclGroupEnd");
}

}  // namespace

void suspend_natively(const std::vector<ncclComm_t>& communicators) {
  // nccl.h of 2.29.7: NCCL_SUSPEND_MEM, the only flag there is.
  constexpr int kSuspendMemory = 0x01;
  const auto suspend = found<ncclResult_t (*)(ncclComm_t, int)>("ncclCommSuspend");
  in_group(communicators, "ncclCommSuspend",
           [&](ncclComm_t communicator) { return suspend(communicator, kSuspendMemory); });
}

void resume_natively(const std::vector<ncclComm_t>& communicators) {
  in_group(communicators, "ncclCommResume", found<ncclResult_t (*)(ncclComm_t)>("ncclCommResume"));
}

}  // namespace jobs
