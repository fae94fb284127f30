// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "driver/device_context.h"

#include <atomic>

namespace amem {
namespace {

// One reference to each primary context is taken and kept: contexts outlive us anyway, and a
// release at exit would be a driver call after exit has begun.
constexpr int kMaxDevices = 64;
std::atomic<DriverContext> g_primary[kMaxDevices];

DriverContext primary_context(const Driver& driver, int device) {
  if (device < 0 || device >= kMaxDevices) return nullptr;
  DriverContext context = g_primary[device].load(std::memory_order_acquire);
  if (context != nullptr) return context;
  unsigned flags = 0;
  int active = 0;
  if (driver.cuDevicePrimaryCtxGetState(device, &flags, &active) != driver_result::kSuccess ||
      active == 0)
    return nullptr;
  if (driver.cuDevicePrimaryCtxRetain(&context, device) != driver_result::kSuccess) return nullptr;
  g_primary[device].store(context, std::memory_order_release);
  return context;
}

}  // namespace

DeviceContext::DeviceContext(const Driver& driver, int device) : driver_(driver) {
  const DriverContext context = primary_context(driver, device);
  if (context == nullptr) return;
  driver_.cuCtxGetCurrent(&previous_);
  if (driver_.cuCtxSetCurrent(context) != driver_result::kSuccess) return;
  driver_.cuThreadExchangeStreamCaptureMode(&previous_mode_);
  entered_ = true;
}

DeviceContext::~DeviceContext() {
  if (!entered_) return;
  driver_.cuThreadExchangeStreamCaptureMode(&previous_mode_);
  driver_.cuCtxSetCurrent(previous_);
}

}  // namespace amem
