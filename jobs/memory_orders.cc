// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "jobs/memory_orders.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <stdexcept>

#include "jobs/deep_stack_ptx.h"
#include "jobs/process_counters.h"

namespace jobs {

namespace {

std::string memory(Words&) {
  size_t free_bytes = 0, total_bytes = 0;
  JOB_CUDA(mem_info(&free_bytes, &total_bytes));
  return std::to_string(free_bytes) + " " + std::to_string(total_bytes);
}

std::string resources(Words&) {
  std::ifstream statm("/proc/self/statm");
  size_t pages = 0, resident = 0;
  statm >> pages >> resident;
  return std::to_string(count_entries("/proc/self/fd")) + " " +
         std::to_string(count_lines("/proc/self/maps")) + " " +
         std::to_string(resident * static_cast<size_t>(getpagesize())) + " " +
         std::to_string(count_entries("/proc/self/task"));
}

/// Memory calls of this process to the driver so far; -1 on a real one, which does not count them.
std::string driver_calls(Words&) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  const auto count =
      library == nullptr
          ? nullptr
          : reinterpret_cast<long long (*)(const char*)>(dlsym(library, "amemSimCallCount"));
  return std::to_string(count == nullptr ? -1 : count("*"));
}

/// driver_checkpoint Lock|Checkpoint|Restore|Unlock ...: of this process by the driver, in this
/// order.
std::string driver_checkpoint(Words& words) {
  struct {  // CUcheckpointLockArgs
    unsigned timeout_ms, reserved[15];
  } limit{10000, {}};
  for (std::string step; words >> step;) {
    const std::string name = "cuCheckpointProcess" + step;
    void* const library = dlopen("libcuda.so.1", RTLD_NOW);
    void* const found = library == nullptr ? nullptr : dlsym(library, name.c_str());
    if (found == nullptr) throw std::runtime_error("libcuda.so.1 has no " + name);
    check_cuda(
        reinterpret_cast<int (*)(int, void*)>(found)(getpid(), step == "Lock" ? &limit : nullptr),
        name.c_str());
  }
  return "";
}

/// How many addresses that the network plugin of the tests has registered have other memory now.
std::string plugin_moved(Words&) {
  const char* path = getenv("NCCL_NET_PLUGIN");
  void* const plugin = dlopen(path != nullptr ? path : "", RTLD_NOW | RTLD_NOLOAD);
  if (plugin == nullptr) throw std::runtime_error("NCCL has loaded no network plugin");
  const auto moved = reinterpret_cast<int (*)()>(dlsym(plugin, "amem_test_plugin_moved"));
  return std::to_string(moved());
}

/// Loads the kernel whose threads need kDeepStackBytes of stack, and makes room for its results.
struct DeepKernel {
  DeepKernel() {
    void* module = nullptr;
    JOB_CUDA(module_load_data(&module, kDeepStackPtx));
    JOB_CUDA(module_get_function(&kernel, module, kDeepStackKernel));
    JOB_CUDA(mem_alloc(&sums, kThreads * sizeof(uint32_t)));
    JOB_CUDA(stream_create(&stream, 1));
  }
  static constexpr unsigned kThreads = 64;
  void* kernel = nullptr;
  Address sums = 0;
  Stream stream = nullptr;
};

/// Runs it and checks its results. The first time, with "prepare", only loads it.
std::string deep_kernel(Words& words) {
  static DeepKernel* const deep = new DeepKernel;
  std::string prepare;
  if (words >> prepare) return "";
  void* parameters[] = {&deep->sums};
  JOB_CUDA(launch_kernel(deep->kernel, 1, 1, 1, DeepKernel::kThreads, 1, 1, 0, deep->stream,
                         parameters, nullptr));
  JOB_CUDA(stream_synchronize(deep->stream));
  std::vector<uint32_t> found(DeepKernel::kThreads);
  JOB_CUDA(to_host(found.data(), deep->sums, found.size() * sizeof(uint32_t)));
  for (uint32_t thread = 0; thread < DeepKernel::kThreads; ++thread)
    if (found[thread] != deep_stack_sum(thread)) throw std::runtime_error("wrong sum of a stack");
  return "";
}

}  // namespace

Orders MemoryOrders::orders() {
  return {
      {"deep_kernel", deep_kernel},
      {"memory", memory},
      {"resources", resources},
      {"driver_calls", driver_calls},
      {"driver_checkpoint", driver_checkpoint},
      {"plugin_moved", plugin_moved},
      {"occupy", [this](Words& words) { return occupy(words); }},
      {"drain", [this](Words&) { return drain(); }},
  };
}

/// Takes all free memory but a reserve, in pieces, and writes a pattern into it; "drain" checks
/// the pattern and frees.
std::string MemoryOrders::occupy(Words& words) {
  size_t spare_bytes = 0;
  words >> spare_bytes >> pattern_;
  size_t free_bytes = 0, total_bytes = 0, taken = 0;
  for (size_t piece = size_t{1} << 30; piece >= size_t{2} << 20;) {
    JOB_CUDA(mem_info(&free_bytes, &total_bytes));
    Address address = 0;
    if (free_bytes < spare_bytes + piece || device_calls().mem_alloc(&address, piece) != 0) {
      piece /= 2;
      continue;
    }
    JOB_CUDA(fill32(address, pattern_, piece / 4));
    pieces_.emplace_back(address, piece);
    taken += piece;
  }
  return std::to_string(taken);
}

std::string MemoryOrders::drain() {
  for (const auto& [address, size_bytes] : pieces_) {
    std::vector<unsigned> sample(std::min<size_t>(size_bytes / 4, 1 << 18));
    JOB_CUDA(to_host(sample.data(), address, sample.size() * 4));
    for (unsigned word : sample)
      if (word != pattern_) throw std::runtime_error("memory of another process was overwritten");
    JOB_CUDA(mem_free(address));
  }
  pieces_.clear();
  return "";
}

}  // namespace jobs
