// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <array>
#include <atomic>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <string>

#include "interpose/interposer.h"

namespace amem {

/// The rows of nccl_functions.def.
enum class NcclFunction {
#define AMEM_NCCL_GATED(name, parameters, arguments) name,
#define AMEM_NCCL_DOOR(name) name,
#include "shim/nccl_functions.def"
#undef AMEM_NCCL_GATED
#undef AMEM_NCCL_DOOR
  count
};
inline constexpr size_t kNcclFunctions = static_cast<size_t>(NcclFunction::count);
const char* name_of(NcclFunction function);

/// One NCCL library of this process, redirected to its doors: whoever looks up or binds one of its
/// functions that have a row gets our function in front of it (doors.h). NCCL's calls of its own
/// functions do not pass a door.
///
/// A copy is filled once, in visit_images(), before the first door of it is handed out; it never
/// goes away, because the library is made not unloadable.
struct NcclCopy {
  char path[PATH_MAX] = "";
  uintptr_t begin = 0, end = 0;
  /// NCCL's functions, and how often their doors were called (calls at the same time by several
  /// threads may count as one).
  std::array<void*, kNcclFunctions> real{};
  std::array<std::atomic<uint64_t>, kNcclFunctions> calls{};
  /// Why calls or memory of this copy cannot be caught; nullptr when they are.
  const char* refusal = nullptr;
};

/// More NCCL libraries in one process are not caught; a process that has them refuses to pause.
inline constexpr int kMostCopies = 4;
extern std::array<NcclCopy, kMostCopies> g_nccl_copies;
/// How many of them are filled.
int nccl_copy_count();

/// Is this image an NCCL library, and not a library that wraps NCCL, nor amem's own libnccl.so.2?
/// In visit_images(). NCCL exports each function by two names, a wrapper exports one of them.
bool is_nccl(const Image& image);

/// Begins to catch NCCL's calls in this process. Idempotent, thread-safe.
void catch_nccl();

/// Why this process cannot pause, as far as catching calls is concerned; "" when it can.
std::string nccl_refusal();

}  // namespace amem
