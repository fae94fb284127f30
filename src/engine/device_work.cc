// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "engine/device_work.h"

#include "base/log.h"

namespace amem {

Status wait_for_device(const Driver& driver, const ExitFlag& exiting, int device) {
  constexpr size_t kBytes = 64;
  // The driver gives out pinned memory from blocks, and making or ending one takes a lock that
  // launches wait for. One piece stays, and so does its block. The other comes and goes; one that
  // could not be freed is the next to go. This thread is its device's only one.
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
    AMEM_LOG(warn, device, "%s may still go on: %s", what, idle.error().message.c_str());
  return driver_error(driver, result, "cuStreamSynchronize() after %s", what);
}

}  // namespace amem
