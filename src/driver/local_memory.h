// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "driver/driver.h"

namespace amem {

/// The local memory of the calling thread's current context, on `device`: stacks for all threads
/// that the device can run at once, in pages of 2 MiB (measured on an H200, driver 580: 264 MiB at
/// 1024 bytes). 0 if the driver does not report it.
inline size_t local_memory_bytes(const Driver& driver, int device) {
  constexpr size_t kPage = size_t{2} << 20;
  constexpr int kThreadsPerMultiprocessor = 39;  // CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_...
  size_t stack_bytes = 0;
  int multiprocessors = 0, threads = 0;
  driver.cuCtxGetLimit(&stack_bytes, kLimitStackSize);
  driver.cuDeviceGetAttribute(&multiprocessors, kAttributeMultiprocessors, device);
  driver.cuDeviceGetAttribute(&threads, kThreadsPerMultiprocessor, device);
  const size_t bytes = stack_bytes * static_cast<size_t>(multiprocessors * threads);
  return (bytes + kPage - 1) / kPage * kPage;
}

}  // namespace amem
