// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <functional>

#include "base/exit_flag.h"
#include "driver/driver.h"

namespace amem {

/// amem works on the devices with a smaller ordinal.
inline constexpr int kMaxDevices = 64;

/// Runs `job` in the primary context of a device, in relaxed capture mode, so that the job may make
/// calls that a stream capture in another thread forbids. For amem's own threads: the context stays
/// current and the mode stays relaxed.
///
/// The CUDA runtime works in primary contexts. amem never creates a context, because a new one
/// takes 525 MB on the device (measured on H200). Errors: unsupported, if the primary context of
/// the device is not active; driver; the error of the job.
Status in_device_context(const Driver& driver, int device, const std::function<Status()>& job);

/// The id of the primary context in which the last job of this device ran; 0 before the first one.
/// It changes when the application resets the device (cudaDeviceReset(),
/// cuDevicePrimaryCtxReset()), which keeps memory of cuMemCreate() and its mappings, and ends
/// streams, events, modules and pinned memory. The use of an ended stream or event ends the process
/// (measured: H100, driver 580.159.04).
uint64_t primary_context_id(int device);

/// The same on a thread of the application, whose context and capture mode are afterwards as
/// before.
Status visit_device_context(const Driver& driver, int device, const std::function<Status()>& job);

/// Waits for all work that was queued on a device before the call, without an effect on stream
/// captures of the process.
///
/// cuCtxSynchronize cannot be used: it invalidates every capture in progress, in every capture
/// mode. Freeing a small pinned allocation in relaxed mode waits for all work of the context, keeps
/// captures valid and hardly delays launches (measured; docs/decisions/0004-drain.md). CUDA does
/// not promise it: the first call of the process makes a test, and if freeing does not wait, this
/// and all later calls use cuCtxSynchronize.
///
/// The contexts of cuCtxCreate() in which work was launched (work_contexts.h) are waited for too.
///
/// To be called in the context of the device: on its thread (DeviceThreads), or in
/// visit_device_context(), which saves two changes of threads. Errors: driver; misuse once exit()
/// has begun.
Status wait_for_device(const Driver& driver, const ExitFlag& exiting, int device);

/// Waits for the work that amem queued in its own stream; `what` names this work in errors. If the
/// wait for the stream fails, waits for the device before it returns the error, because queued work
/// may still access memory that the caller would reuse or unmap.
///
/// Threads and errors as above.
Status wait_for_stream(const Driver& driver, const ExitFlag& exiting, int device,
                       DriverStream stream, const char* what);

}  // namespace amem
