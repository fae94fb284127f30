// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// What allocating and freeing tagged memory costs beside cudaMalloc() and cudaFree(), and the calls
// of the driver in it (docs/benchmarks.md). Not part of the build, because it needs CUDA and a GPU:
//
//   export LIBRARY_PATH=build/release/lib:$CUDA_HOME/lib64 CPATH=include:$CUDA_HOME/include
//   g++ -O2 -std=c++20 -o free_probe bench/probes/free_probe.cc -lamem_nccl -lcudart -lcuda
//   LD_LIBRARY_PATH=build/release/lib:$CUDA_HOME/lib64 AMEM_ENABLE=1 ./free_probe MIB
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "amem.h"

namespace {

constexpr int kRounds = 15, kAtOnce = 50;

void check(int code, const char* call) {
  if (code == 0) return;
  fprintf(stderr, "%s: %d\n", call, code);
  exit(1);
}
#define CHECK(call) check(static_cast<int>(call), #call)

/// Memory of a VMM allocation, as amem makes it for a region.
struct Mapped {
  CUmemGenericAllocationHandle handle;
  CUdeviceptr address;
};

/// Microseconds of one call, by round.
std::vector<std::pair<std::string, std::vector<double>>> g_times;

void measure(const char* name, const std::function<void(int)>& call) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kAtOnce; ++i) call(i);
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
  auto found = std::find_if(g_times.begin(), g_times.end(),
                            [&](const auto& entry) { return entry.first == name; });
  if (found == g_times.end()) found = g_times.insert(found, {name, {}});
  found->second.push_back(took.count() / kAtOnce);
}

}  // namespace

int main(int argc, char** argv) {
  const size_t bytes = static_cast<size_t>(argc > 1 ? atoi(argv[1]) : 50) << 20;
  CHECK(cudaFree(nullptr));
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.allocFlags.gpuDirectRDMACapable = 1;
  CUmemAccessDesc access = {};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  std::array<void*, kAtOnce> pointers;
  std::array<Mapped, kAtOnce> mapped;
  void* stays = nullptr;  // keeps the driver's block of pinned memory
  CHECK(cuMemHostAlloc(&stays, 64, 0));
  for (int round = 0; round < kRounds; ++round) {
    measure("amemMalloc",
            [&](int i) { CHECK(amemMalloc(&pointers[i], bytes, "probe", amemKindKeep)); });
    measure("amemFree", [&](int i) { CHECK(amemFree(pointers[i])); });
    measure("cudaMalloc", [&](int i) { CHECK(cudaMalloc(&pointers[i], bytes)); });
    measure("cudaFree", [&](int i) { CHECK(cudaFree(pointers[i])); });
    measure("reserve, create, map, access", [&](int i) {
      CHECK(cuMemAddressReserve(&mapped[i].address, bytes, 0, 0, 0));
      CHECK(cuMemCreate(&mapped[i].handle, bytes, &properties, 0));
      CHECK(cuMemMap(mapped[i].address, bytes, 0, mapped[i].handle, 0));
      CHECK(cuMemSetAccess(mapped[i].address, bytes, &access, 1));
    });
    measure("unmap, release, free address", [&](int i) {
      CHECK(cuMemUnmap(mapped[i].address, bytes));
      CHECK(cuMemRelease(mapped[i].handle));
      CHECK(cuMemAddressFree(mapped[i].address, bytes));
    });
    measure("wait, by freeing pinned memory", [&](int) {
      void* goes = nullptr;
      CHECK(cuMemHostAlloc(&goes, 64, 0));
      CHECK(cuMemFreeHost(goes));
    });
  }
  for (auto& [name, times] : g_times) {
    std::sort(times.begin(), times.end());
    printf("%-32s %7.1f us (%.1f to %.1f)\n", name.c_str(), times[kRounds / 2], times.front(),
           times.back());
  }
  return 0;
}
