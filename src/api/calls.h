// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "amem.h"
#include "api/process.h"
#include "base/cancellation.h"
#include "base/last_error.h"
#include "clients/nccl/doors/nccl_result.h"

namespace amem {

// Common code of the exported functions.

/// The process object, or nullptr if amem is inactive: not enabled, without a CUDA driver, or in a
/// forked child.
Process* process_that_works();
/// The same, or the reason why amem is inactive.
Result<Process*> active_process();

/// Session::pause() and resume(). Errors also if amem is inactive.
Status pause_process(const Selection& selection);
Status resume_process(const Selection& selection);
amemState_t state_of(const Tag& tag);
/// What ncclPause() selects.
Selection selection_of_nccl();

/// A region with a tag for this kind of memory; a null tag: memory that is not paused. Errors also
/// if amem is inactive.
Result<Region> region_of(const char* tag, amemKind_t kind);

/// The path of a file in the folder of this library.
std::string beside_this_library(const char* file);

// Each exported function runs its code in one of the following templates, or constructs a
// NoCancellation first (tools/check_banned.py).

/// The amemError_t of an error.
inline int code_of(const Error& error) {
  if (error.kind == ErrorKind::timeout) return amemErrorTimeout;
  if (!error.shortage.empty()) return amemErrorOutOfMemory;
  return nccl_result_of(error.kind);
}

/// 0, or the amemError_t of the error, whose text `keep` stores for amemGetLastError().
inline int kept_result(const char* call, const Status& status,
                       void (*keep)(const char* call, const Error& error)) {
  if (status.ok()) {
    note_success();
    return 0;
  }
  keep(call, status.error());
  return code_of(status.error());
}

/// The same for `body()`, which returns a Status.
template <typename Body>
int result_of(const char* call, Body body) {
  const NoCancellation no_cancellation;
  return kept_result(call, body(), keep_last_error);
}

/// An error if `pointer`, an argument with this name, is null.
Status check_pointer(const void* pointer, const char* name);

/// An error if a timeout or a wait is longer than a day, the maximum of AMEM_TIMEOUT_MS.
Status check_duration(uint64_t milliseconds);

/// Errors: misuse, for a null list that is not empty and for a range that is no range of addresses.
Result<std::vector<AddressRange>> ranges_of(const amemRange_t* ranges, size_t count);

/// Runs `body(Process&)`, which returns a Status, and returns its result_of(). If amem is inactive,
/// only returns that error.
template <typename Body>
int with_process(const char* call, Body body) {
  return result_of(call, [&]() -> Status { return body(*AMEM_TRY(active_process())); });
}

/// Sets `*out` to what `read(Process&)` returns, or its Result. Returns 0, or the amemError_t if
/// this fails, `out` is null or amem is inactive: `*out` is then zero.
template <typename Out, typename Read>
int read_into(const char* call, Out* out, Read read) {
  const NoCancellation no_cancellation;
  const auto run = [&]() -> Status {
    AMEM_TRY(check_pointer(out, "result"));
    *out = {};
    Process& process = *AMEM_TRY(active_process());
    *out = AMEM_TRY(Result<Out>(read(process)));
    return ok_status();
  };
  return kept_result(call, run(), set_last_error);
}

}  // namespace amem

#define AMEM_API extern "C" [[gnu::visibility("default")]]
