// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "amem.h"
#include "api/process.h"
#include "engine/statistics.h"

namespace amem {

// Common code of the exported functions.

/// The process object, or nullptr if amem is inactive: not enabled, without a CUDA driver, or in a
/// forked child. why_inactive() returns the reason.
Process* process_that_works();
Error why_inactive();

/// Session::pause() and resume(). Errors also if amem is inactive, if exit() has begun, or if NCCL
/// is selected and amem does not see all its calls.
Status pause_process(const Selection& selection);
Status resume_process(const Selection& selection);

amemTotals_t totals_of(const MemoryTotals& totals);

}  // namespace amem

#define AMEM_API extern "C" [[gnu::visibility("default")]]
