// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "base/exit_flag.h"
#include "driver/driver.h"

namespace amem {

/// Waits for all work that was queued on a device before the call, without disturbing a stream
/// capture anywhere in the process.
///
/// cuCtxSynchronize would not do: it invalidates every capture in progress, whatever the mode of
/// the capture and of the calling thread. Freeing a little pinned memory in relaxed mode waits for
/// all work of the context and leaves captures alone, and hardly holds up launches, unlike
/// registering and unregistering (measured; docs/decisions/0004-drain.md).
///
/// On the thread of the device (DeviceThreads), in its context. Errors: driver; misuse once exit()
/// has begun.
Status wait_for_device(const Driver& driver, const ExitFlag& exiting, int device);

/// Waits for what amem queued in a stream of its own; `what` names that in an error. Where the
/// driver fails to wait for the stream, waits for the device before returning that error: memory
/// that is still read or written by what is queued would be used again, unmapped even.
///
/// Threads and errors as above.
Status wait_for_stream(const Driver& driver, const ExitFlag& exiting, int device,
                       DriverStream stream, const char* what);

}  // namespace amem
