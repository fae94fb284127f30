// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/nccl/forwarder/missing_nccl.h"

#include <string_view>

namespace amem {
namespace {

// ncclResult_t, the same in all versions of NCCL.
constexpr int kNcclSystemError = 2;
constexpr int kNcclInvalidUsage = 5;

// In the System V ABI a callee may ignore its arguments, in registers and on the stack, so one
// function without parameters replaces all functions with the same type of result.
int return_invalid_usage() { return kNcclInvalidUsage; }
int return_system_error() { return kNcclSystemError; }
int return_zero() { return 0; }
const char* return_text() {
  return "amem found no usable NCCL library to forward to; its first error line says why";
}
struct EmptyTeam {
  int ranks, rank, stride;
};
EmptyTeam return_empty_team() { return {0, 0, 0}; }

template <typename Function>
void* address_of(Function* function) {
  return reinterpret_cast<void*>(function);
}

/// The replacement for a function that does not return ncclResult_t (nccl.h and nccl_device.h of
/// 2.28 to 2.30); null for all others.
void* stand_in_of_other_kind(std::string_view name) {
  if (name.starts_with('p')) name.remove_prefix(1);
  if (name == "ncclGetErrorString" || name == "ncclGetLastError") return address_of(return_text);
  if (name == "ncclTeamWorld" || name == "ncclTeamLsa" || name == "ncclTeamRail")
    return address_of(return_empty_team);
  if (name == "ncclTeamRankToWorld" || name == "ncclTeamRankToLsa" || name == "ncclLLA2ACalcSlots")
    return address_of(return_zero);
  return nullptr;
}

}  // namespace

void* stand_in_for_absent(const char* name) {
  void* other = stand_in_of_other_kind(name);
  return other != nullptr ? other : address_of(return_invalid_usage);
}

void* stand_in_without_nccl(const char* name) {
  void* other = stand_in_of_other_kind(name);
  return other != nullptr ? other : address_of(return_system_error);
}

}  // namespace amem
