// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "engine/resume_error.h"

#include <unistd.h>

#include <cstdint>

#include "driver/nvml.h"

namespace amem {

bool is_lack_of_memory(const Error& error) {
  return error.kind == ErrorKind::driver && error.code == driver_result::kOutOfMemory;
}

std::optional<size_t> free_bytes(const Driver& driver, DeviceThreads& threads, int device) {
  constexpr long kMaxMs = 1000;  // for a text, or what is asked again
  const auto found = std::make_shared<size_t>(0);
  const Status asked = threads.run(
      {{device,
        [&driver, found] {
          size_t total_bytes = 0;
          return driver.check(driver.cuMemGetInfo_v2(found.get(), &total_bytes), "cuMemGetInfo()");
        }}},
      "the query of its free memory", Deadline::after_ms(kMaxMs));
  return asked.ok() ? std::optional<size_t>(*found) : std::nullopt;
}

Error resume_error(ProcessContext& context, const Error& error,
                   const std::map<int, size_t>& wanted_bytes) {
  if (!is_lack_of_memory(error)) return error;
  std::string text = error.message, shortage;
  int64_t most = INT64_MIN;
  for (const auto& [device, bytes] : wanted_bytes) {
    const size_t free = free_bytes(context.driver, context.fill_threads, device).value_or(0);
    const std::vector<MemoryHolder> holders = ask_nvml(gpu_uuid(context.driver, device)).holders;
    text += "; device " + std::to_string(device) + ": " + std::to_string(bytes >> 20) +
            " MiB are needed, " + std::to_string(free >> 20) + " MiB are free";
    const std::string others = describe_holders(holders, getpid());
    if (!others.empty()) text += " (" + others + ")";
    const int64_t lacking = static_cast<int64_t>(bytes) - static_cast<int64_t>(free);
    if (lacking <= most) continue;
    most = lacking;
    shortage = shortage_json(device, bytes, free, holders);
  }
  return Error{ErrorKind::driver, error.code,
               text + "; this process stays paused: free memory, then resume again", shortage};
}

}  // namespace amem
