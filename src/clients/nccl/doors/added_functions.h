// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstring>
#include <span>

namespace amem {

/// A function that amem adds to NCCL (nccl.h).
struct AddedFunction {
  const char* name;
  void* function;
};

/// All of them. Set when the library is loaded, constant afterwards.
inline constinit std::span<const AddedFunction> g_added_functions;

/// The function with this name; nullptr for other names.
inline void* added_function(const char* name) {
  for (const auto& [known, function] : g_added_functions)
    if (strcmp(name, known) == 0) return function;
  return nullptr;
}

}  // namespace amem
