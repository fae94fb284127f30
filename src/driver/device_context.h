// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "driver/driver.h"

namespace amem {

/// Makes the primary context of a device current on this thread, and lets the thread call what a
/// stream capture elsewhere forbids (capture mode relaxed), for as long as the object lives.
///
/// NCCL works in primary contexts (it calls cudaSetDevice). A context is only used, never created:
/// a fresh one costs 525 MB on the device (measured on H200), so ok() is false for a device whose
/// primary context is not active.
class DeviceContext {
 public:
  DeviceContext(const Driver& driver, int device);
  ~DeviceContext();
  DeviceContext(const DeviceContext&) = delete;

  bool ok() const { return entered_; }

 private:
  const Driver& driver_;
  DriverContext previous_ = nullptr;
  int previous_mode_ = kCaptureModeRelaxed;
  bool entered_ = false;
};

}  // namespace amem
