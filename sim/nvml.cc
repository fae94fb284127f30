// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// The simulated libnvidia-ml.so.1: which processes hold memory of a simulated GPU, from the
// descriptors that they have of its pool (pool.h). How much each holds it cannot tell, as the real
// one under MIG or without privileges (NVML API Reference, nvmlProcessInfo_t).
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "sim/machine.h"
#include "sim/settings.h"

namespace {

constexpr int kSuccess = 0, kInvalidArgument = 2, kNotSupported = 3, kNotFound = 6,
              kInsufficientSize = 7;

struct Process {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance;
  unsigned compute_instance;
};

struct Memory {
  unsigned version;
  unsigned long long total_bytes, reserved_bytes, free_bytes, used_bytes;
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

int find_device(long number, void** device) {
  if (access(pool_of(static_cast<int>(number)).c_str(), F_OK) != 0) return kNotFound;
  *device = reinterpret_cast<void*>(number + 1);
  return kSuccess;
}

}  // namespace

#define AMEM_SIM_NVML extern "C" __attribute__((visibility("default")))

AMEM_SIM_NVML int nvmlInit_v2() { return kSuccess; }
AMEM_SIM_NVML int nvmlShutdown() { return kSuccess; }

/// The last byte of a simulated GPU's UUID is its number (driver_api_device.cc).
AMEM_SIM_NVML int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  const std::string text = uuid == nullptr ? "" : uuid;
  if (text.size() != 40 || !text.starts_with("GPU-")) return kInvalidArgument;
  return find_device(strtol(text.c_str() + 38, nullptr, 16), device);
}

/// The bus of a simulated GPU is 1 more than its number (driver_api_device.cc).
AMEM_SIM_NVML int nvmlDeviceGetHandleByPciBusId_v2(const char* pci, void** device) {
  unsigned domain = 0, bus = 0;
  if (pci == nullptr || sscanf(pci, "%x:%x:", &domain, &bus) != 2 || bus == 0)
    return kInvalidArgument;
  return find_device(static_cast<long>(bus) - 1, device);
}

AMEM_SIM_NVML int nvmlDeviceGetIndex(void* device, unsigned* index) {
  *index = static_cast<unsigned>(reinterpret_cast<intptr_t>(device) - 1);
  return kSuccess;
}

AMEM_SIM_NVML int nvmlDeviceGetName(void*, char* name, unsigned capacity) {
  std::snprintf(name, capacity, "amem simulated GPU");
  return kSuccess;
}

AMEM_SIM_NVML int nvmlDeviceGetMemoryInfo_v2(void* device, Memory* memory) {
  const auto number = static_cast<size_t>(reinterpret_cast<intptr_t>(device) - 1);
  const amem::UniqueFd file(
      open((amem::sim::machine_folder() + "/state").c_str(), O_RDWR | O_CLOEXEC));
  constexpr size_t kSize = sizeof(amem::sim::SharedState);
  void* const at = mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (at == MAP_FAILED) return kNotFound;
  auto* const state = static_cast<amem::sim::SharedState*>(at);
  amem::sim::Pool pool;
  const uint64_t total = state->device_memory_bytes;
  const bool is_open = pool.open(pool_of(static_cast<int>(number)), total, &state->pools[number],
                                 file.get(), amem::sim::kFirstPoolByte + number);
  const uint64_t used = is_open ? pool.used_bytes() : 0;
  munmap(at, kSize);
  *memory = {memory->version, total, 0, total - used, used};
  return is_open ? kSuccess : kNotFound;
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

/// The older form, which PyTorch calls for the text of an error. It returns no processes.
AMEM_SIM_NVML int nvmlDeviceGetComputeRunningProcesses(void*, unsigned* count, void*) {
  *count = 0;
  return kSuccess;
}

AMEM_SIM_NVML int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  constexpr int kCuda13 = 13000;
  *version = kCuda13;
  return kSuccess;
}

AMEM_SIM_NVML int nvmlDeviceGetNvLinkRemoteDeviceType(void*, unsigned, int*) {
  return kNotSupported;
}
AMEM_SIM_NVML int nvmlDeviceGetNvLinkRemotePciInfo_v2(void*, unsigned, void*) {
  return kNotSupported;
}

/// nvmlGpuFabricInfo_v2_t (NVML API Reference).
struct FabricInfo {
  unsigned version;
  unsigned char cluster_uuid[16];
  int status;
  unsigned clique_id;
  unsigned char state;
  unsigned health_mask;
};

/// Complete where AMEM_SIM_FABRIC names an IMEX domain, which is a cluster of one clique.
AMEM_SIM_NVML int nvmlDeviceGetGpuFabricInfoV(void*, FabricInfo* info) {
  constexpr unsigned char kCompleted = 3;  // NVML_GPU_FABRIC_STATE_COMPLETED
  const std::string domain = amem::sim::fabric_domain();
  if (domain.empty()) return kNotSupported;
  *info = {info->version, {}, kSuccess, 1, kCompleted, 0};
  domain.copy(reinterpret_cast<char*>(info->cluster_uuid), sizeof info->cluster_uuid);
  return kSuccess;
}
