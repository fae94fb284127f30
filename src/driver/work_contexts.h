// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <vector>

#include "driver/driver.h"

namespace amem {

/// The contexts in which work was launched, with their devices: primary ones, and those that the
/// application has made with cuCtxCreate(). The work of all of them uses the same memory. One list
/// for each process. All functions are thread-safe.

/// Work is about to be launched in the current context of the calling thread. Called at every
/// launch: in a context in which the thread has
/// launched before it costs one driver call that reads a variable of the
/// thread, and takes no lock.
void note_work_context(const Driver& driver);

/// The noted contexts of this device.
std::vector<DriverContext> work_contexts_of(int device);

/// The context has been destroyed.
void forget_work_context(DriverContext context);

}  // namespace amem
