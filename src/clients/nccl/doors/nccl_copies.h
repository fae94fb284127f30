// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <array>
#include <atomic>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <span>

#include "amem_nccl_abi.h"
#include "base/result.h"
#include "driver/types.h"
#include "interpose/interposer.h"

namespace amem {

// The names of the types in nccl_functions.def.
using Comm = ncclComm_t;
using Stream = DriverStream;

/// The rows of nccl_functions.def.
enum class NcclFunction {
#define AMEM_NCCL_FUNCTION(name, ...) name,
#include "clients/nccl/doors/nccl_functions.def"
#undef AMEM_NCCL_FUNCTION
  count
};
inline constexpr size_t kNcclFunctions = static_cast<size_t>(NcclFunction::count);
const char* name_of(NcclFunction function);

/// One NCCL library of this process, whose symbols lead to doors: a look-up or binding of a
/// function with a row gets its door. NCCL's calls of its own functions pass no door.
///
/// A copy is filled once, in visit_images(), before its first door is handed out. It is never
/// removed, because the library cannot be unloaded. Doors read it without acquire: store_word()
/// executes a fence before it hands out a door.
struct NcclCopy {
  char path[PATH_MAX] = "";
  uintptr_t begin = 0, end = 0;
  /// NCCL's functions, and the number of calls of their doors. Simultaneous calls of several
  /// threads may count as one.
  std::array<void*, kNcclFunctions> real{};
  std::array<std::atomic<uint64_t>, kNcclFunctions> calls{};
  /// Why amem cannot see all calls or memory of this copy; nullptr if it can.
  const char* refusal = nullptr;
};

/// A process with more NCCL libraries refuses to pause.
inline constexpr int kMaxCopies = 4;
extern std::array<NcclCopy, kMaxCopies> g_nccl_copies;
/// The filled copies.
std::span<NcclCopy> nccl_copies();

/// The door of one function of one NCCL library (doors.cc). Callers reach the door in place of the
/// function. It passes the gate and calls the function, or returns an error. If amem is inactive,
/// it only calls the function.
const void* door_of(int copy, NcclFunction function);

/// True for an NCCL library; false for a library that wraps NCCL and for amem's own libnccl.so.2.
/// NCCL exports each function under two names, a wrapper under one of them. For use in
/// visit_images().
bool is_nccl(const Image& image);

/// Starts the interception of NCCL's calls in this process. Idempotent, thread-safe. Reads no
/// settings, because the program may still set them.
void catch_nccl();

/// Logs one line for each NCCL library that was found since the last call.
void log_nccl_copies();

/// An error unless amem sees all calls of NCCL: unsupported. Patches images that were loaded or
/// bound since the last scan.
Status check_nccl_copies();

}  // namespace amem
