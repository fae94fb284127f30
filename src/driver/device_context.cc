// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "driver/device_context.h"

#include <atomic>

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
  DriverResult result = driver.cuDevicePrimaryCtxGetState(device, &flags, &active);
  if (result != driver_result::kSuccess)
    return driver_error(driver, result, "cuDevicePrimaryCtxGetState(%d)", device);
  if (active == 0)
    return make_error(ErrorKind::unsupported, 0, "device %d has no active primary context", device);
  result = driver.cuDevicePrimaryCtxRetain(&context, device);
  if (result != driver_result::kSuccess)
    return driver_error(driver, result, "cuDevicePrimaryCtxRetain(%d)", device);
  g_primary[device].store(context, std::memory_order_release);
  return context;
}

}  // namespace

Status in_device_context(const Driver& driver, int device, const std::function<Status()>& job) {
  Result<DriverContext> context = primary_context(driver, device);
  if (!context.ok()) return std::move(context.error());
  DriverResult result = driver.cuCtxSetCurrent(context.value());
  if (result != driver_result::kSuccess)
    return driver_error(driver, result, "cuCtxSetCurrent(device %d)", device);
  int mode = kCaptureModeRelaxed;
  result = driver.cuThreadExchangeStreamCaptureMode(&mode);
  if (result != driver_result::kSuccess)
    return driver_error(driver, result, "cuThreadExchangeStreamCaptureMode(relaxed)");
  return job();
}

}  // namespace amem
