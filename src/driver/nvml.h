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

/// The memory of a GPU.
struct GpuMemory {
  size_t total_bytes = 0, used_bytes = 0;
};

/// A process that holds memory of a device.
struct MemoryHolder {
  pid_t pid;
  std::optional<size_t> size_bytes;  ///< empty if NVML does not report it
};

/// What NVML reports of a GPU. Members that it does not report are empty.
struct GpuReport {
  std::optional<unsigned> index;  ///< of nvidia-smi
  std::string model{};            ///< such as "NVIDIA H200"
  std::optional<GpuMemory> memory;
  std::vector<MemoryHolder> holders;  ///< including this process
};

/// Queries NVML. The report is empty if libnvidia-ml.so.1 is missing or does not know the GPU, and
/// names no holders in most containers. Takes milliseconds to a second: use it only for texts. Any
/// thread. Source: NVML API Reference, nvmlDeviceGetIndex, nvmlDeviceGetName,
/// nvmlDeviceGetMemoryInfo_v2, nvmlDeviceGetComputeRunningProcesses.
GpuReport ask_nvml(const std::string& uuid);

/// The processes other than `self`, as text: "process 4711 holds 60000 MiB, process 4712 holds an
/// unknown amount".
std::string describe_holders(const std::vector<MemoryHolder>& holders, pid_t self);

/// What amemGetShortage() returns.
std::string shortage_json(int device, size_t wanted_bytes, size_t free_bytes,
                          const std::vector<MemoryHolder>& holders);

}  // namespace amem
