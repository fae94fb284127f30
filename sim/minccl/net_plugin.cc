// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sim/minccl/net_plugin.h"

#include <dlfcn.h>

#include <string>

#include "sim/minccl/last_error.h"
#include "sim/minccl/settings.h"

namespace amem::minccl {
namespace {

constexpr int kNewestTable = 13, kOldestTable = 8;
constexpr size_t kRegMr = 7;   ///< index in ncclNet_v8_t to ncclNet_v13_t
constexpr int kPtrCuda = 0x2;  ///< NCCL_PTR_CUDA
using RegMr = ncclResult_t (*)(void* comm, void* data, size_t size, int type, void** handle);

void* const* find_table() {
  void* const library = dlopen(settings().net_plugin, RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr && settings().net_plugin_table != nullptr)
    return static_cast<void* const*>(dlsym(library, settings().net_plugin_table));
  for (int version = kNewestTable; library != nullptr && version >= kOldestTable; --version)
    if (void* table = dlsym(library, ("ncclNetPlugin_v" + std::to_string(version)).c_str()))
      return static_cast<void* const*>(table);
  return nullptr;
}

}  // namespace

ncclResult_t register_with_net_plugin(void* address, size_t size_bytes) {
  if (settings().net_plugin == nullptr || size_bytes < settings().net_plugin_least_bytes)
    return ncclSuccess;
  static void* const* const table = find_table();
  if (table == nullptr) {
    log_info("no network plugin %s", settings().net_plugin);
    return ncclSuccess;
  }
  void* handle = nullptr;
  return reinterpret_cast<RegMr>(table[kRegMr])(nullptr, address, size_bytes, kPtrCuda, &handle);
}

}  // namespace amem::minccl
