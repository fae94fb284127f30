// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include <unistd.h>

#include <map>
#include <memory>

#include "api/process.h"
#include "base/environment.h"
#include "clients/nccl/buffer_contents.h"
#include "clients/untagged/untagged_memory.h"
#include "driver/local_memory.h"
#include "driver/nvml.h"
#include "engine/statistics.h"

namespace amem {
namespace {

constexpr long kDeviceMs = 100;
/// Of less, no remedy is said.
constexpr size_t kMinRemedyBytes = size_t{100} << 20;

constexpr int kPoolReserved = 5;   // CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT
constexpr int kGraphReserved = 2;  // CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT

struct Owner {
  size_t bytes = 0;
  std::string remedy{};
  std::string json{};  ///< more members
};
using Owners = std::map<std::string, Owner>;

/// What the driver reports of a device.
struct DeviceMemory {
  size_t free_bytes = 0, total_bytes = 0, local_bytes = 0;
  uint64_t pool_bytes = 0, graph_bytes = 0;
};

/// In the context of the device. A value that the driver does not report stays 0.
void read(const Driver& driver, int device, DeviceMemory& memory) {
  driver.cuMemGetInfo_v2(&memory.free_bytes, &memory.total_bytes);
  memory.local_bytes = local_memory_bytes(driver, device);
  DriverPool pool = nullptr;
  if (driver.cuDeviceGetMemPool(&pool, device) == driver_result::kSuccess)
    driver.cuMemPoolGetAttribute(pool, kPoolReserved, &memory.pool_bytes);
  driver.cuDeviceGetGraphMemAttribute(device, kGraphReserved, &memory.graph_bytes);
}

/// Of the devices with a primary context.
std::map<int, DeviceMemory> read_devices(Process& process) {
  const Driver& driver = process.driver;
  std::map<int, DeviceThreads::Job> jobs;
  std::map<int, std::shared_ptr<DeviceMemory>> found;
  int count = 0;
  driver.cuDeviceGetCount(&count);
  for (int device = 0; device < count; ++device) {
    unsigned flags = 0;
    int is_active = 0;
    driver.cuDevicePrimaryCtxGetState(device, &flags, &is_active);
    if (is_active == 0) continue;
    found[device] = std::make_shared<DeviceMemory>();
    jobs[device] = [&driver, device, memory = found[device]] {
      read(driver, device, *memory);
      return ok_status();
    };
  }
  const DeviceThreads::Started started = process.devices.start(std::move(jobs));
  const Deadline deadline = Deadline::after_ms(kDeviceMs);
  std::map<int, DeviceMemory> memory;
  for (const auto& job : started)
    memory[job.first] =
        DeviceThreads::wait({job}, "a query", deadline).ok() ? *found[job.first] : DeviceMemory();
  return memory;
}

std::string owner_of(const Allocation& allocation, const Tag& tag, bool is_persistent) {
  std::string name = tag;
  if (tag == kNcclTag)
    name += allocation.is_application_own ? ", ncclMemAlloc()"
            : allocation.nonce != 0       ? ", buffers that peers map"
                                          : ", buffers of this process";
  if (is_persistent)
    name += std::string(", never released: ") + (allocation.persistent_because != nullptr
                                                     ? allocation.persistent_because
                                                     : "in a slab with persistent memory");
  return name;
}

/// Memory with a tag, to the byte: a backing can be larger than the allocations in it.
void add_tags(Registry& registry, std::map<int, Owners>& all) {
  MutexLock lock(registry.mutex);
  std::map<BackingId, size_t> unused;
  for (const auto& [id, backing] : registry.backings())
    if (!backing.is_import && backing.is_here()) unused[id] = backing.size_bytes;
  const auto add = [&](int device, const std::string& name, const Tag& tag, size_t bytes,
                       bool stays) {
    Owner& owner = all[device][name];
    owner.bytes += bytes;
    if (!stays) owner.remedy = "amem.pause('" + tag + "') releases it";
  };
  for (const auto& [id, allocation] : registry.allocations()) {
    const auto left = unused.find(allocation.backing);
    if (left == unused.end() || allocation.is_unreferenced()) continue;
    const Backing& backing = registry.backing_of(allocation);
    const bool stays = is_persistent(backing, registry.allocations());
    left->second -= allocation.size_bytes;
    add(allocation.device(), owner_of(allocation, backing.tag, stays), backing.tag,
        allocation.size_bytes, stays);
  }
  for (const auto& [id, bytes] : unused) {
    const Backing& backing = *registry.find_backing(id);
    const bool stays = is_persistent(backing, registry.allocations());
    if (bytes > 0)
      add(backing.properties.location.id,
          backing.tag + ", unused parts of slabs" + (stays ? ", never released" : ""), backing.tag,
          bytes, stays);
  }
}

void add_libraries(std::map<int, Owners>& all) {
  for (const auto& [key, sum] : untagged_memory().by_library()) {
    const bool is_pytorch = key.second.starts_with("libc10_cuda.so");
    Owner& owner = all[key.first][key.second];
    owner.bytes = sum.bytes;
    owner.remedy = is_pytorch ? "with amem.region(TAG) around what allocates it, or amem run "
                                "--tensors TAG; torch.cuda.empty_cache() returns its free segments"
                              : "amem run --tensors TAG gives it a tag, which a pause releases";
    if (current_region_of_pytorch()) owner.remedy.clear();  // the program has left it out
    owner.json = ", \"allocations\": " + std::to_string(sum.count) +
                 ", \"largest_bytes\": " + std::to_string(sum.largest_bytes) +
                 ", \"largest_at\": \"" + text_json(sum.largest_at) + "\"";
  }
}

void add_driver(const DeviceMemory& memory, Owners& owners) {
  owners["stacks of kernels (local memory)"] = {
      memory.local_bytes, owners.empty() ? "" : "amem.pause() of all tags returns it"};
  owners["memory pools (cudaMallocAsync)"] = {memory.pool_bytes,
                                              "cudaMemPoolTrimTo() returns its free part"};
  owners["memory nodes of CUDA graphs"] = {memory.graph_bytes,
                                           "cudaDeviceGraphMemTrim() returns its free part"};
}

std::string json_of(const Owners& owners) {
  std::string list;
  for (const auto& [name, owner] : owners) {
    if (owner.bytes == 0) continue;
    list += (list.empty() ? "{\"owner\": \"" : ", {\"owner\": \"") + text_json(name) +
            "\", \"bytes\": " + std::to_string(owner.bytes) + owner.json;
    if (owner.bytes >= kMinRemedyBytes && !owner.remedy.empty())
      list += ", \"remedy\": \"" + text_json(owner.remedy) + "\"";
    list += "}";
  }
  return list;
}

}  // namespace

std::string Process::attribution_text() {
  if (!exiting.check().ok()) return "{}";
  std::map<int, Owners> all;
  const std::map<int, DeviceMemory> reports = read_devices(*this);
  add_tags(registry, all);
  for (const auto& [device, report] : reports) add_driver(report, all[device]);
  add_libraries(all);
  for (const auto& [device, bytes] : untagged_memory().contexts())
    all[device]["CUDA context"].bytes = bytes;
  std::string gpus;
  for (const auto& [device, owners] : all) {
    const auto report = reports.find(device);
    const bool is_known = report != reports.end() && report->second.total_bytes > 0;
    gpus += (gpus.empty() ? "{\"gpu\": \"" : ", {\"gpu\": \"") + gpu_uuid(driver, device) +
            "\", \"device\": " + std::to_string(device);
    if (is_known)
      gpus += ", \"total_bytes\": " + std::to_string(report->second.total_bytes) +
              ", \"used_bytes\": " +
              std::to_string(report->second.total_bytes - report->second.free_bytes);
    else
      gpus += ", \"busy\": true";
    gpus += ", \"owners\": [" + json_of(owners) + "]}";
  }
  const auto flag = [](bool value) { return value ? "true" : "false"; };
  return "{\"pid\": " + std::to_string(getpid()) +
         ", \"names_libraries\": " + flag(environment().attribution) +
         ", \"has_process_tag\": " + flag(current_region_of_pytorch().has_value()) +
         ", \"gpus\": [" + gpus + "]}";
}

}  // namespace amem
