// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <functional>

#include "driver/driver.h"

namespace amem {

/// Runs `job` in the primary context of a device, in relaxed capture mode, so that the job may make
/// calls that a stream capture in another thread forbids. For amem's own threads: the context stays
/// current and the mode stays relaxed.
///
/// The CUDA runtime works in primary contexts. amem never creates a context, because a new one
/// takes 525 MB on the device (measured on H200). Errors: unsupported, if the primary context of
/// the device is not active; driver; the error of the job.
Status in_device_context(const Driver& driver, int device, const std::function<Status()>& job);

}  // namespace amem
