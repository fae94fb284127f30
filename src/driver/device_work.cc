// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "driver/device_work.h"

#include <atomic>

#include "base/log.h"

namespace amem {
namespace {

// amem takes one reference to each primary context and never releases it: a release at exit would
// be a driver call after exit has begun.
constexpr int kMaxDevices = 64;
std::atomic<DriverContext> g_primary[kMaxDevices];

Result<DriverContext> primary_context(const Driver& driver, int device) {
  if (device < 0 || device >= kMaxDevices)
    return make_error(ErrorKind::unsupported, 0, "device %d is over the limit of %d", device,
                      kMaxDevices);
  DriverContext context = g_primary[device].load(std::memory_order_acquire);
  if (context != nullptr) return context;
  unsigned flags = 0;
  int active = 0;
  AMEM_TRY(driver_status(driver, driver.cuDevicePrimaryCtxGetState(device, &flags, &active),
                         "cuDevicePrimaryCtxGetState(%d)", device));
  if (active == 0)
    return make_error(ErrorKind::unsupported, 0, "device %d has no active primary context", device);
  AMEM_TRY(driver_status(driver, driver.cuDevicePrimaryCtxRetain(&context, device),
                         "cuDevicePrimaryCtxRetain(%d)", device));
  g_primary[device].store(context, std::memory_order_release);
  return context;
}

}  // namespace

Status in_device_context(const Driver& driver, int device, const std::function<Status()>& job) {
  Result<DriverContext> context = primary_context(driver, device);
  if (!context.ok()) return std::move(context.error());
  AMEM_TRY(driver_status(driver, driver.cuCtxSetCurrent(context.value()),
                         "cuCtxSetCurrent(device %d)", device));
  int mode = kCaptureModeRelaxed;
  AMEM_TRY(driver_status(driver, driver.cuThreadExchangeStreamCaptureMode(&mode),
                         "cuThreadExchangeStreamCaptureMode(relaxed)"));
  return job();
}

Status wait_for_device(const Driver& driver, const ExitFlag& exiting, int device) {
  constexpr size_t kBytes = 64;
  // The driver allocates pinned memory from blocks. To create or free a block it takes a lock that
  // kernel launches need. One allocation is therefore kept, so that its block is kept too. The
  // other is allocated and freed at each call; if freeing it failed, the next call frees it. Only
  // the thread of the device calls this function.
  static constinit thread_local void* t_stays = nullptr;
  static constinit thread_local void* t_goes = nullptr;
  AMEM_TRY(exiting.check());
  const char* call = "cuMemHostAlloc()";
  DriverResult result = driver_result::kSuccess;
  for (void** const piece : {&t_stays, &t_goes})
    if (*piece == nullptr && result == driver_result::kSuccess)
      result = driver.cuMemHostAlloc(piece, kBytes, 0);
  if (result == driver_result::kSuccess) {
    AMEM_TRY(exiting.check());
    call = "cuMemFreeHost()";
    result = driver.cuMemFreeHost(t_goes);
  }
  if (result != driver_result::kSuccess)
    return driver_error(driver, result, "%s to wait for the work of device %d", call, device);
  t_goes = nullptr;
  return ok_status();
}

Status wait_for_stream(const Driver& driver, const ExitFlag& exiting, int device,
                       DriverStream stream, const char* what) {
  AMEM_TRY(exiting.check());
  const DriverResult result = driver.cuStreamSynchronize(stream);
  if (result == driver_result::kSuccess) return ok_status();
  if (const Status idle = wait_for_device(driver, exiting, device); !idle.ok())
    AMEM_LOG(warn, device, "%s may still be running: %s", what, idle.error().message.c_str());
  return driver_error(driver, result, "cuStreamSynchronize() after %s", what);
}

}  // namespace amem
