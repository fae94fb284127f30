// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "driver/nvml.h"

#include <dlfcn.h>

#include <array>
#include <cstdio>
#include <string>

namespace amem {
namespace {

using NvmlResult = int;
constexpr NvmlResult kNvmlSuccess = 0;
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

/// A GPU in the NVML library, which is loaded while the object exists. NVML counts its users.
class Nvml {
 public:
  explicit Nvml(const std::string& uuid)
      : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) return;
    find("nvmlInit_v2", &init_);
    find("nvmlShutdown", &shutdown_);
    find("nvmlDeviceGetHandleByUUID", &by_uuid_);
    find("nvmlDeviceGetIndex", &index_);
    find("nvmlDeviceGetComputeRunningProcesses_v3", &processes_);
    find("nvmlDeviceGetMemoryInfo", &memory_);
    const bool complete = init_ != nullptr && shutdown_ != nullptr && by_uuid_ != nullptr &&
                          index_ != nullptr && processes_ != nullptr;
    ready_ = complete && init_() == kNvmlSuccess;
    is_known_ = ready_ && by_uuid_(uuid.c_str(), &device_) == kNvmlSuccess;
  }
  ~Nvml() {
    if (ready_) shutdown_();
    if (library_ != nullptr) dlclose(library_);
  }
  Nvml(const Nvml&) = delete;

  std::optional<unsigned> index() {
    unsigned index = 0;
    if (!is_known_ || index_(device_, &index) != kNvmlSuccess) return std::nullopt;
    return index;
  }

  std::optional<GpuMemory> memory() {
    NvmlMemory found{};
    if (!is_known_ || memory_ == nullptr || memory_(device_, &found) != kNvmlSuccess)
      return std::nullopt;
    return GpuMemory{found.total_bytes, found.used_bytes};
  }

  std::vector<NvmlProcess> processes() {
    std::vector<NvmlProcess> found(256);
    auto count = static_cast<unsigned>(found.size());
    if (!is_known_ || processes_(device_, &count, found.data()) != kNvmlSuccess) count = 0;
    found.resize(count);
    return found;
  }

 private:
  template <typename Function>
  void find(const char* name, Function* function) {
    *function = reinterpret_cast<Function>(dlsym(library_, name));
  }

  void* library_;
  NvmlResult (*init_)() = nullptr;
  NvmlResult (*shutdown_)() = nullptr;
  NvmlResult (*by_uuid_)(const char*, void**) = nullptr;
  NvmlResult (*index_)(void*, unsigned*) = nullptr;
  NvmlResult (*processes_)(void*, unsigned*, NvmlProcess*) = nullptr;
  NvmlResult (*memory_)(void*, NvmlMemory*) = nullptr;
  bool ready_ = false;
  void* device_ = nullptr;
  bool is_known_ = false;
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

std::optional<unsigned> gpu_index(const std::string& uuid) { return Nvml(uuid).index(); }

std::optional<GpuMemory> gpu_memory(const std::string& uuid) { return Nvml(uuid).memory(); }

std::vector<MemoryHolder> memory_holders(const std::string& uuid) {
  std::vector<MemoryHolder> holders;
  if (uuid.empty()) return holders;
  for (const NvmlProcess& process : Nvml(uuid).processes()) {
    MemoryHolder holder{static_cast<pid_t>(process.pid), std::nullopt};
    if (process.used_bytes != kNotAvailable) holder.size_bytes = process.used_bytes;
    holders.push_back(holder);
  }
  return holders;
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
