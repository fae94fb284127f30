// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sim/proc_address.h"

#include <string_view>

#include "sim/api.h"

// Only the addresses are needed; each function's own file has its true type.
#define AMEM_SIM_FUNCTION(name, symbol, since, kind) AMEM_SIM_API void symbol();
#include "sim/functions.def"
#undef AMEM_SIM_FUNCTION

namespace amem::sim {
namespace {

struct Row {
  std::string_view name;
  void* entry_point;
  int since;
};

const Row kRows[] = {
#define AMEM_SIM_FUNCTION(name, symbol, since, kind) \
  {#name, reinterpret_cast<void*>(&::symbol), since},
#include "sim/functions.def"
#undef AMEM_SIM_FUNCTION
};

}  // namespace

void* find_entry_point(const char* name, int cuda_version, int* status) {
  *status = kProcAddressNotFound;
  const Row* best = nullptr;
  for (const Row& row : kRows) {
    if (row.name != name) continue;
    if (row.since > cuda_version) {
      if (best == nullptr) *status = kProcAddressVersionNotSufficient;
      continue;
    }
    if (best == nullptr || row.since > best->since) best = &row;
  }
  if (best == nullptr) return nullptr;
  *status = kProcAddressSuccess;
  return best->entry_point;
}

}  // namespace amem::sim
