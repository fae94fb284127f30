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

/// The device's UUID in the format of NVML and nvidia-smi -L, "GPU-" and 36 characters: the same in
/// all processes, whatever CUDA_VISIBLE_DEVICES is. Empty if the driver does not report it.
std::string gpu_uuid(const Driver& driver, int device);

/// The index of nvidia-smi. Empty if libnvidia-ml.so.1 is missing or does not know the GPU. Source:
/// NVML API Reference, nvmlDeviceGetIndex.
std::optional<unsigned> gpu_index(const std::string& uuid);

/// The memory of a GPU.
struct GpuMemory {
  size_t total_bytes = 0, used_bytes = 0;
};

/// A process that holds memory of a device.
struct MemoryHolder {
  pid_t pid;
  std::optional<size_t> size_bytes;  ///< empty if NVML does not report it
};

/// The processes that hold memory of a GPU according to NVML, including this one. Empty if
/// libnvidia-ml.so.1 is missing or reports nothing, as in most containers. Takes milliseconds to a
/// second: use it only for error texts. Any thread. Source: NVML API Reference,
/// nvmlDeviceGetComputeRunningProcesses.
std::vector<MemoryHolder> memory_holders(const std::string& uuid);

/// Empty if NVML does not report it. Source: NVML API Reference, nvmlDeviceGetMemoryInfo.
std::optional<GpuMemory> gpu_memory(const std::string& uuid);

/// The processes other than `self`, as text: "process 4711 holds 60000 MiB, process 4712 holds an
/// unknown amount".
std::string describe_holders(const std::vector<MemoryHolder>& holders, pid_t self);

/// What amemGetShortage() returns.
std::string shortage_json(int device, size_t wanted_bytes, size_t free_bytes,
                          const std::vector<MemoryHolder>& holders);

}  // namespace amem
