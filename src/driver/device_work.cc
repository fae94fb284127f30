// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "driver/device_work.h"

#include "base/log.h"

namespace amem {

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
