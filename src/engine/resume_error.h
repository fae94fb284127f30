// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <map>

#include "sharing/process_context.h"

namespace amem {

/// The error of a resume. If there is not enough memory, with the wanted bytes by device, the free
/// bytes, and the processes that hold the memory, if NVML reports them.
Error resume_error(ProcessContext& context, const Error& error,
                   const std::map<int, size_t>& wanted_bytes);

}  // namespace amem
