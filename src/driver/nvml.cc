// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "driver/nvml.h"

#include <dlfcn.h>

#include <array>
#include <cstdio>
#include <span>

namespace amem {
namespace {

constexpr int kNvmlSuccess = 0;
constexpr unsigned long long kNotAvailable = ~0ULL;  // NVML_VALUE_NOT_AVAILABLE

/// nvmlProcessInfo_v2_t.
struct NvmlProcess {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance;
  unsigned compute_instance;
};

/// nvmlMemory_t.
struct NvmlMemory {
  unsigned long long total_bytes, free_bytes, used_bytes;
};

/// nvmlMemory_v2_t: what the driver reserves for itself is not used.
struct NvmlMemory2 {
  unsigned version = sizeof(NvmlMemory2) | 2U << 24;
  unsigned long long total_bytes, reserved_bytes, free_bytes, used_bytes;
};

}  // namespace

std::string gpu_uuid(const Driver& driver, int device) {
  std::array<unsigned char, 16> bytes{};
  if (driver.cuDeviceGetUuid_v2(bytes.data(), device) != driver_result::kSuccess) return {};
  std::string text = "GPU";
  for (size_t i = 0; i < bytes.size(); ++i) {
    char digits[4];
    const bool begins_part = i == 0 || i == 4 || i == 6 || i == 8 || i == 10;
    snprintf(digits, sizeof digits, begins_part ? "-%02x" : "%02x", bytes[i]);
    text += digits;
  }
  return text;
}

GpuReport ask_nvml(const std::string& uuid) {
  GpuReport report;
  void* const library = uuid.empty() ? nullptr : dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return report;
  // False if the library lacks the function, or it fails.
  const auto call = [library]<typename... Args>(const char* name, Args... args) {
    const auto function = reinterpret_cast<int (*)(Args...)>(dlsym(library, name));
    return function != nullptr && function(args...) == kNvmlSuccess;
  };
  if (call("nvmlInit_v2")) {
    void* device = nullptr;
    unsigned index = 0, count = 256;
    NvmlMemory2 memory{};
    NvmlMemory older{};
    std::vector<NvmlProcess> processes(count);
    if (call("nvmlDeviceGetHandleByUUID", uuid.c_str(), &device)) {
      if (call("nvmlDeviceGetIndex", device, &index)) report.index = index;
      char model[96] = {};  // NVML_DEVICE_NAME_V2_BUFFER_SIZE
      if (call("nvmlDeviceGetName", device, model, unsigned{sizeof model})) report.model = model;
      if (call("nvmlDeviceGetMemoryInfo_v2", device, &memory))
        report.memory = {memory.total_bytes, memory.used_bytes};
      else if (call("nvmlDeviceGetMemoryInfo", device, &older))
        report.memory = {older.total_bytes, older.used_bytes};
      if (!call("nvmlDeviceGetComputeRunningProcesses_v3", device, &count, processes.data()))
        count = 0;
      for (const NvmlProcess& process : std::span(processes).first(count)) {
        report.holders.push_back({static_cast<pid_t>(process.pid), std::nullopt});
        if (process.used_bytes != kNotAvailable)
          report.holders.back().size_bytes = process.used_bytes;
      }
    }
    call("nvmlShutdown");
  }
  dlclose(library);
  return report;
}

std::string describe_holders(const std::vector<MemoryHolder>& holders, pid_t self) {
  std::string text;
  for (const MemoryHolder& holder : holders) {
    if (holder.pid == self) continue;
    text += (text.empty() ? "process " : ", process ") + std::to_string(holder.pid);
    text += holder.size_bytes ? " holds " + std::to_string(*holder.size_bytes >> 20) + " MiB"
                              : std::string(" holds an unknown amount");
  }
  return text;
}

std::string shortage_json(int device, size_t wanted_bytes, size_t free_bytes,
                          const std::vector<MemoryHolder>& holders) {
  std::string list;
  for (const MemoryHolder& holder : holders) {
    const std::string bytes = holder.size_bytes ? std::to_string(*holder.size_bytes) : "null";
    list += std::string(list.empty() ? "" : ", ") + R"({"pid": )" + std::to_string(holder.pid) +
            R"(, "bytes": )" + bytes + "}";
  }
  return R"({"device": )" + std::to_string(device) + R"(, "wanted_bytes": )" +
         std::to_string(wanted_bytes) + R"(, "free_bytes": )" + std::to_string(free_bytes) +
         R"(, "holders": [)" + list + "]}";
}

}  // namespace amem
