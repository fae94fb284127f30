// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Host memory that a session pins ahead of a pause, and gives back.
#include "base/log.h"
#include "engine/session.h"

namespace amem {

void Session::prepare_host_memory(int device, size_t size_bytes) {
  (void)context_.devices.start({{device, [this, device, size_bytes] {
                                   const Status ready = pool_.reserve(size_bytes, device);
                                   if (!ready.ok())
                                     AMEM_LOG(warn, device, "%s", ready.error().message.c_str());
                                   return ok_status();
                                 }}});
}

Result<size_t> Session::trim_host_memory() {
  const int device = pool_.device();
  if (device < 0) return size_t{0};
  const Error in_use = make_error(
      ErrorKind::misuse, 0, "the host memory holds contents of released memory; resume first");
  for (const auto& [tag, state] : states())
    if (state != SessionState::active && state != SessionState::paused) return in_use;
  const Deadline deadline = Deadline::after_ms(context_.timeout_ms);
  // A copy of a pause that reached its deadline may still be running.
  AMEM_TRY(context_.devices.drain(devices(), deadline));
  const auto given = std::make_shared<size_t>(0);
  AMEM_TRY(context_.devices.run({{device,
                                  [this, given] {
                                    *given = pool_.trim();
                                    return ok_status();
                                  }}},
                                "unpinning host memory", deadline));
  if (*given == 0 && pool_.capacity_bytes() > 0) return in_use;
  return *given;
}

}  // namespace amem
