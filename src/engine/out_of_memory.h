// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <map>

#include "engine/engine_context.h"

namespace amem {

/// The error of a resume for which a device has no room: with what is wanted, in bytes by device,
/// what is free, and who holds the device's memory, where NVML tells that.
Error out_of_memory(EngineContext& context, const Error& error,
                    const std::map<int, size_t>& wanted_bytes);

}  // namespace amem
