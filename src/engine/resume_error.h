// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <map>
#include <optional>

#include "sharing/process_context.h"

namespace amem {

/// True if a driver call failed because the device lacks memory.
bool is_lack_of_memory(const Error& error);
/// The free memory of the device, asked on its thread, if it is known.
std::optional<size_t> free_bytes(const Driver& driver, DeviceThreads& threads, int device);

/// The error of a resume. If there is not enough memory, with the wanted bytes by device, the free
/// bytes, and the processes that hold the memory, if NVML reports them.
Error resume_error(ProcessContext& context, const Error& error,
                   const std::map<int, size_t>& wanted_bytes);

}  // namespace amem
