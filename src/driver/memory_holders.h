// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "driver/driver.h"

namespace amem {

/// A process that holds memory of a device.
struct MemoryHolder {
  pid_t pid;
  std::optional<size_t> size_bytes;  ///< nothing where NVML cannot tell
};

/// The processes that hold memory of a device, as NVML tells, this one among them; empty where
/// libnvidia-ml.so.1 is missing or tells nothing, as in most containers. Takes milliseconds to a
/// second: for texts of errors. Any thread.
/// Source: NVML API Reference, nvmlDeviceGetComputeRunningProcesses.
std::vector<MemoryHolder> memory_holders(const Driver& driver, int device);

/// The others among them, for people: "process 4711 holds 60000 MiB, process 4712 holds some".
std::string describe_holders(const std::vector<MemoryHolder>& holders, pid_t self);

}  // namespace amem
