// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// The simulated libnvidia-ml.so.1: which processes hold memory of a simulated GPU, from the
// descriptors that they have of its pool (pool.h). How much each holds it cannot tell, as the real
// one under MIG or without privileges (NVML API Reference, nvmlProcessInfo_t).
#include <dirent.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "sim/settings.h"

namespace {

constexpr int kSuccess = 0, kInvalidArgument = 2, kNotFound = 6, kInsufficientSize = 7;

struct Process {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance;
  unsigned compute_instance;
};

std::string pool_of(int device) {
  return amem::sim::machine_folder() + "/gpu" + std::to_string(device);
}

/// The open files of a process that `path` names.
int count_of(const std::string& files, const std::string& path) {
  DIR* folder = opendir(files.c_str());
  if (folder == nullptr) return 0;
  int count = 0;
  while (const dirent* entry = readdir(folder)) {
    char target[4096];
    const ssize_t length = readlink((files + "/" + entry->d_name).c_str(), target, sizeof target);
    if (length > 0 && std::string(target, static_cast<size_t>(length)) == path) ++count;
  }
  closedir(folder);
  return count;
}

}  // namespace

#define AMEM_SIM_NVML extern "C" __attribute__((visibility("default")))

AMEM_SIM_NVML int nvmlInit_v2() { return kSuccess; }
AMEM_SIM_NVML int nvmlShutdown() { return kSuccess; }

/// The last byte of a simulated GPU's UUID is its number (driver_api_device.cc).
AMEM_SIM_NVML int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  const std::string text = uuid == nullptr ? "" : uuid;
  if (text.size() != 40 || !text.starts_with("GPU-")) return kInvalidArgument;
  const long number = strtol(text.c_str() + 38, nullptr, 16);
  if (access(pool_of(static_cast<int>(number)).c_str(), F_OK) != 0) return kNotFound;
  *device = reinterpret_cast<void*>(number + 1);
  return kSuccess;
}

AMEM_SIM_NVML int nvmlDeviceGetIndex(void* device, unsigned* index) {
  *index = static_cast<unsigned>(reinterpret_cast<intptr_t>(device) - 1);
  return kSuccess;
}

AMEM_SIM_NVML int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count,
                                                          Process* processes) {
  const std::string pool = pool_of(static_cast<int>(reinterpret_cast<intptr_t>(device) - 1));
  DIR* folder = opendir("/proc");
  if (folder == nullptr) return kNotFound;
  unsigned found = 0;
  while (const dirent* entry = readdir(folder)) {
    const auto pid = static_cast<unsigned>(atoi(entry->d_name));
    // A process has the pool itself open as long as it uses the machine.
    if (pid == 0 || count_of("/proc/" + std::to_string(pid) + "/fd", pool) < 2) continue;
    if (found < *count) processes[found] = {pid, ~0ULL, ~0U, ~0U};
    ++found;
  }
  closedir(folder);
  const bool fits = found <= *count;
  *count = found;
  return fits ? kSuccess : kInsufficientSize;
}
