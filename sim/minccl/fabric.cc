// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sim/minccl/fabric.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <functional>
#include <string_view>

#include "sim/minccl/allocator.h"
#include "sim/minccl/settings.h"

namespace amem::minccl {
namespace {

constinit std::atomic<int> g_handle_type = kHandleTypePosixFd;

/// nvmlGpuFabricInfo_v2_t (NVML API Reference).
struct NvmlFabric {
  unsigned version;
  unsigned char cluster_uuid[16];
  int status;
  unsigned clique_id;
  unsigned char state;
  unsigned health_mask;
};

template <typename Function>
Function nvml_function(const char* name) {
  static void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  return library == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(library, name));
}

bool ask_nvml(CuDevice device, NvmlFabric* fabric) {
  const auto find = nvml_function<int (*)(const char*, void**)>("nvmlDeviceGetHandleByPciBusId_v2");
  const auto ask = nvml_function<int (*)(void*, NvmlFabric*)>("nvmlDeviceGetGpuFabricInfoV");
  int bus = 0;
  void* handle = nullptr;
  if (find == nullptr || ask == nullptr ||
      driver().device_get_attribute(&bus, kAttributePciBusId, device) != kSuccess)
    return false;
  char name[32];
  std::snprintf(name, sizeof name, "00000000:%02x:00.0", bus);
  constexpr unsigned kVersion2 = sizeof(NvmlFabric) | (2u << 24);
  *fabric = {};
  fabric->version = kVersion2;
  return find(name, &handle) == 0 && ask(handle, fabric) == 0;
}

/// That the driver exports a fabric handle, and imports it in the same process. The
/// reference of the import is never released.
ncclResult_t try_fabric() {
  void* address = nullptr;
  CuMemHandle handle = 0, imported = 0;
  MINCCL_TRY(cumem_alloc_as(kHandleTypeFabric, 1, &address, &handle));
  std::array<unsigned char, 64> name{};
  CuResult result = driver().mem_export(name.data(), handle, kHandleTypeFabric, 0);
  if (result == kSuccess) result = driver().mem_import(&imported, name.data(), kHandleTypeFabric);
  MINCCL_TRY(cumem_free(address));
  return result == kSuccess ? ncclSuccess : fail_driver("export of a fabric handle", result);
}

}  // namespace

int memory_handle_type() { return g_handle_type; }

uint64_t fabric_of(CuDevice device) {
  constexpr unsigned char kCompleted = 3;  // NVML_GPU_FABRIC_STATE_COMPLETED
  NvmlFabric fabric;
  if (!ask_nvml(device, &fabric) || fabric.state != kCompleted) return 0;
  const std::string_view cluster(reinterpret_cast<const char*>(fabric.cluster_uuid),
                                 sizeof fabric.cluster_uuid);
  return std::hash<std::string_view>()(cluster) + fabric.clique_id;
}

ncclResult_t check_fabric(const std::vector<PeerInfo>& peers, int rank, bool* uses_fabric) {
  const PeerInfo& self = peers[static_cast<size_t>(rank)];
  *uses_fabric = false;
  int supported = 0;
  driver().device_get_attribute(&supported, kAttributeHandleTypeFabric, self.device);
  const auto is_there = [&](const PeerInfo& peer) { return peer.host != self.host; };
  const bool wanted = settings().mnnvl == 1 ||
                      (settings().mnnvl != 0 && std::any_of(peers.begin(), peers.end(), is_there));
  if (!wanted || !settings().cumem || supported == 0) return ncclSuccess;
  const auto is_complete = [](const PeerInfo& peer) { return peer.fabric != 0; };
  const auto is_of_clique = [&](const PeerInfo& peer) { return peer.fabric == self.fabric; };
  if (!std::all_of(peers.begin(), peers.end(), is_complete) ||
      std::count_if(peers.begin(), peers.end(), is_of_clique) <= 1)
    return ncclSuccess;
  if (try_fabric() != ncclSuccess)
    return fail(ncclSystemError,
                "MNNVL is available but not working: NCCL_MNNVL_ENABLE=0 ignores it");
  g_handle_type = kHandleTypeFabric;
  *uses_fabric = true;
  log_info("MNNVL 1 rank %d", rank);
  return ncclSuccess;
}

}  // namespace amem::minccl
