// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "base/exit_flag.h"
#include "driver/driver.h"

namespace amem {

/// Waits for all work that was queued on a device before the call, without an effect on stream
/// captures of the process.
///
/// cuCtxSynchronize cannot be used: it invalidates every capture in progress, in every capture
/// mode. Freeing a small pinned allocation in relaxed mode waits for all work of the context, keeps
/// captures valid and hardly delays launches (measured; docs/decisions/0004-drain.md).
///
/// To be called on the thread of the device (DeviceThreads), in its context. Errors: driver; misuse
/// once exit() has begun.
Status wait_for_device(const Driver& driver, const ExitFlag& exiting, int device);

/// Waits for the work that amem queued in its own stream; `what` names this work in errors. If the
/// wait for the stream fails, waits for the device before it returns the error, because queued work
/// may still access memory that the caller would reuse or unmap.
///
/// Threads and errors as above.
Status wait_for_stream(const Driver& driver, const ExitFlag& exiting, int device,
                       DriverStream stream, const char* what);

}  // namespace amem
