// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Which all-reduce kernel is the fastest on two GPUs with NVLink, and what its barriers cost. bf16, sums in float32,
// in CUDA graphs. Not part of the build, because it needs nvcc and two GPUs, for less than 40 s:
//
//   nvcc -O2 -std=c++17 -arch=sm_90 -I. -Isymmetric/include -o all_reduce_probe bench/probes/all_reduce_probe.cu
//   ./all_reduce_probe
//
// product: the kernels of symmetric/kernels.h as they are; "small" also above 128 KiB. pull, push:
// two-shot in place; a rank reads its part of the inputs from its peers, or they write it to its scratch memory.
// one-shot: a rank reads all inputs, out of place. xB: B vectors of a thread at a time; then blocks x threads. A
// result is checked after a graph of many calls; in place, each call adds up the results of the one before.
//
// The PTX memory model allows the loads and stores here, except those with "!": ld.nc, because the memory changes
// during the kernel, and relaxed flags without a fence, which rely on the boundaries of kernels ("half!": the first
// send and the last poll). Weak accesses (the default, and no_allocate) do not race, since barriers order them.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "bench/probes/all_reduce_kernels.cuh"

namespace {

using namespace probe;

struct Device {
  cudaStream_t stream;
  cudaEvent_t begin, end;
  Call call = {};
} devices[kRanks];

struct Candidate {
  std::string name;
  Kernel kernel;
  int algorithm = of_product, batch = 1, mode = 0;
  bool in_place = false;
  int blocks = 1, threads = kBarrierThreads;
  size_t launch_bytes = 0;  ///< a call has launches for this many bytes each; 0: one launch
  double us = 0;
};

void check(cudaError_t code, int line = __builtin_LINE()) {
  if (code == cudaSuccess) return;
  fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(code));
  exit(1);
}
template <typename Body>
void on_each(const Body& body) {
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    check(cudaSetDevice(static_cast<int>(rank)));
    body(devices[rank], rank);
  }
}
void synchronize() {
  on_each([](Device& device, uint32_t) { check(cudaStreamSynchronize(device.stream)); });
}

void set_up() {
  Call all = {};
  check(cudaHostAlloc(&all.view.report, sizeof(Report), cudaHostAllocPortable | cudaHostAllocMapped));
  *static_cast<Report*>(all.view.report) = {};
  all.view.world_size = kRanks;
  all.timeout_ns = 1'000'000'000;
  all.is_synchronized = 1;
  on_each([&](Device& device, uint32_t rank) {
    check(cudaDeviceEnablePeerAccess(1 - static_cast<int>(rank), 0));
    check(cudaStreamCreateWithFlags(&device.stream, cudaStreamNonBlocking));
    check(cudaEventCreate(&device.begin));
    check(cudaEventCreate(&device.end));
    check(cudaMalloc(&all.view.buffers[rank], kMaxBytes));
    check(cudaMalloc(&all.view.workspaces[rank], kWorkspaceBytes));
    check(cudaMalloc(&all.flags[rank], sizeof(Flags)));
    check(cudaMalloc(&all.scratch[rank], kMaxBytes));
    check(cudaMalloc(&device.call.output, kMaxBytes));
  });
  on_each([&](Device& device, uint32_t rank) {
    all.output = device.call.output;
    all.view.rank = rank;
    device.call = all;
  });
}

/// Small whole numbers: their sums are exact, also times a power of two.
__device__ uint32_t element_of(size_t index, uint32_t rank) {
  return 1 + static_cast<uint32_t>((index * kRanks + rank) * 2654435761u >> 20) % 60;
}
__global__ void fill(uint16_t* data, size_t count, uint32_t rank) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    data[i] = static_cast<uint16_t>(__float_as_uint(element_of(i, rank)) >> 16);
}
__global__ void verify(const void* data, size_t count, float scale, uint32_t* failed) {
  const auto* const elements = static_cast<const uint16_t*>(data);
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    if (elements[i] != __float_as_uint((element_of(i, 0) + element_of(i, 1)) * scale) >> 16) *failed = 2;
}

cudaGraphExec_t graph_of(const Candidate& candidate, const Device& device, size_t size_bytes, int calls) {
  Call call = device.call;
  call.size_bytes = candidate.launch_bytes == 0 ? size_bytes : candidate.launch_bytes;
  call.part_bytes = part_bytes_of(call.size_bytes, kRanks);
  if (candidate.in_place) call.output = nullptr;
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  check(cudaStreamBeginCapture(device.stream, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < calls; ++i) {
    call.offset_bytes = 0;
    do {
      candidate.kernel<<<candidate.blocks, candidate.threads, 0, device.stream>>>(call);
      call.offset_bytes += call.size_bytes;
    } while (call.offset_bytes < size_bytes);
  }
  check(cudaStreamEndCapture(device.stream, &graph));
  check(cudaGraphInstantiate(&executable, graph, 0));
  check(cudaGraphDestroy(graph));
  return executable;
}

/// The first word of a workspace is `failed`: kernels set it at a timeout, verify() if a result is wrong.
uint32_t* failed_of(const Device& device) {
  return reinterpret_cast<uint32_t*>(device.call.view.workspaces[device.call.view.rank]);
}
bool has_failed() {
  uint32_t failed[kRanks];
  on_each([&](Device& device, uint32_t rank) {
    check(cudaMemcpyAsync(&failed[rank], failed_of(device), sizeof *failed, cudaMemcpyDefault, device.stream));
  });
  synchronize();
  return std::any_of(failed, failed + kRanks, [](uint32_t word) { return word != 0; });
}

void wait_until(void* flag) {
  while (!*static_cast<std::atomic<bool>*>(flag)) std::this_thread::yield();
}

/// Microseconds of a call: the median of rounds, in which both GPUs start together.
void measure(Candidate& candidate, size_t size_bytes) {
  constexpr size_t kRounds = 5;
  const int calls = size_bytes <= kMiB ? 100 : 10;
  cudaGraphExec_t graphs[kRanks];
  on_each([&](Device& device, uint32_t rank) {
    const View& view = device.call.view;
    check(cudaMemsetAsync(view.workspaces[rank], 0, kWorkspaceBytes, device.stream));
    check(cudaMemsetAsync(device.call.flags[rank], 0, sizeof(Flags), device.stream));
    check(cudaMemsetAsync(device.call.output, 0, size_bytes, device.stream));
    fill<<<264, 512, 0, device.stream>>>(reinterpret_cast<uint16_t*>(view.buffers[rank]), size_bytes / 2, rank);
    graphs[rank] = graph_of(candidate, device, size_bytes, calls);
  });
  synchronize();
  on_each([&](Device& device, uint32_t rank) { check(cudaGraphLaunch(graphs[rank], device.stream)); });
  on_each([&](Device& device, uint32_t rank) {
    const void* result = candidate.in_place ? device.call.view.buffers[rank] : device.call.output;
    const float scale = candidate.in_place ? std::ldexp(1.0f, calls - 1) : 1;
    verify<<<264, 512, 0, device.stream>>>(result, size_bytes / 2, scale, failed_of(device));
  });
  const bool is_right = !has_failed();
  std::vector<double> times;
  for (size_t round = 0; is_right && round < kRounds; ++round) {
    std::atomic<bool> all_is_queued{false};
    on_each([&](Device& device, uint32_t rank) {
      check(cudaLaunchHostFunc(device.stream, wait_until, &all_is_queued));
      barrier_of<Send::release, Poll::acquire><<<1, kBarrierThreads, 0, device.stream>>>(device.call);
      check(cudaEventRecord(device.begin, device.stream));
      check(cudaGraphLaunch(graphs[rank], device.stream));
      check(cudaEventRecord(device.end, device.stream));
    });
    all_is_queued = true;
    synchronize();
    float slowest_ms = 0;
    on_each([&](Device& device, uint32_t) {
      float ms;
      check(cudaEventElapsedTime(&ms, device.begin, device.end));
      slowest_ms = std::max(slowest_ms, ms);
    });
    times.push_back(slowest_ms * 1e3 / calls);
  }
  on_each([&](Device&, uint32_t rank) { check(cudaGraphExecDestroy(graphs[rank])); });
  std::sort(times.begin(), times.end());
  candidate.us = has_failed() ? INFINITY : times[times.size() / 2];
  if (has_failed())
    printf("%s: %s, %d x %d, %zu bytes\n", is_right ? "TIMEOUT" : "WRONG, or a timeout", candidate.name.c_str(),
           candidate.blocks, candidate.threads, size_bytes);
}

// --- The search

template <size_t kIndex>
void add_variant(std::vector<Candidate>& all) {
  constexpr auto kAlgorithm = static_cast<Algorithm>(kIndex / (4 * kModeCount));
  constexpr int kBatch = 1 << kIndex / kModeCount % 4, kMode = kIndex % kModeCount;
  // A push has a barrier in the middle, where one flag is not enough.
  if constexpr (kAlgorithm != push || !kModes[kMode].one_flag)
    all.push_back({std::string(kAlgorithmNames[kAlgorithm]) + " x" + std::to_string(kBatch) + kModes[kMode].name,
                   all_reduce<kAlgorithm, kBatch, kMode>, kAlgorithm, kBatch, kMode, kAlgorithm != one_shot});
}
template <size_t... kIndices>
std::vector<Candidate> all_variants(std::index_sequence<kIndices...>) {
  std::vector<Candidate> all;
  (add_variant<kIndices>(all), ...);
  return all;
}

uint32_t multiprocessors() {
  int count;
  check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0));
  return static_cast<uint32_t>(count);
}

/// The product's kernels that can do this size, in the shape in which the product launches them.
std::vector<Candidate> products(size_t size_bytes) {
  const size_t launch_bytes = launch_bytes_of(size_bytes, kRanks, kMaxScratchBytes);
  const Shape shape = two_shot_shape(launch_bytes, kRanks, multiprocessors());
  std::vector<Candidate> all = {{"product two-shot", product_two_shot, of_product, 1, 0, true,
                                 static_cast<int>(shape.blocks), static_cast<int>(shape.threads), launch_bytes}};
  if (size_bytes <= kMaxOneShotBytes)
    all.push_back({"product one-shot", product<sum_kernel<Bfloat16>>, of_product, 1, 0, false,
                   static_cast<int>(blocks_for(size_bytes)), kThreads});
  const Kernel small = size_bytes <= kSmallBytes ? product<small_all_reduce_kernel<Bfloat16>> : product_small;
  if (size_bytes <= kMaxSmallBytes)
    all.push_back({"product small", small, of_product, 1, 0, false,
                   static_cast<int>((size_bytes + kSmallBlockBytes - 1) / kSmallBlockBytes), kSmallThreads});
  return all;
}

/// Whether all blocks have work and are resident at once, which barriers need, and enough bytes are under way.
bool is_useful(const Candidate& candidate, size_t size_bytes) {
  const size_t work = candidate.in_place ? size_bytes / kRanks : size_bytes;
  const size_t blocks = candidate.blocks, block_bytes = candidate.threads * candidate.batch * sizeof(Vector);
  if ((blocks - 1) * block_bytes >= work || candidate.threads * candidate.batch > 512 * 8) return false;
  if (block_bytes / 2 >= work && (candidate.threads > 256 || candidate.batch > 1)) return false;
  if (blocks * block_bytes < std::min(work, (work < 16 * kMiB ? 256 : 512) * kKiB)) return false;
  int resident;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, candidate.kernel, candidate.threads, 0));
  return candidate.blocks <= resident * static_cast<int>(multiprocessors());
}

/// The fastest, of one algorithm or of any.
std::vector<Candidate> best_of(std::vector<Candidate> all, size_t count, int algorithm = -1) {
  const auto is_other = [&](const Candidate& c) { return algorithm >= 0 && c.algorithm != algorithm; };
  all.erase(std::remove_if(all.begin(), all.end(), is_other), all.end());
  std::sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) { return a.us < b.us; });
  all.resize(std::min(count, all.size()));
  return all;
}

/// All shapes of the variants in the first mode; then all modes of the best two shapes of each algorithm.
std::vector<Candidate> explore(const std::vector<Candidate>& variants, size_t size_bytes) {
  std::vector<Candidate> measured;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(6);
  const auto try_shape = [&](Candidate candidate, int blocks, int threads) {
    candidate.blocks = blocks, candidate.threads = threads;
    if (!is_useful(candidate, size_bytes) || std::chrono::steady_clock::now() > deadline) return;
    measure(candidate, size_bytes);
    measured.push_back(candidate);
  };
  for (const Candidate& variant : variants)
    if (variant.mode == 0 && (variant.in_place || size_bytes <= kMaxOneShotBytes))
      for (const int threads : {256, 512, 1024})
        for (const int blocks : {1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 132, 264}) try_shape(variant, blocks, threads);
  for (const int algorithm : {pull, push, one_shot})
    for (const Candidate& best : best_of(measured, 2, algorithm))
      for (const Candidate& variant : variants)
        if (variant.mode != 0 && variant.algorithm == algorithm && variant.batch == best.batch)
          try_shape(variant, best.blocks, best.threads);
  if (std::chrono::steady_clock::now() > deadline) printf("(the search of the next size was cut short)\n");
  return measured;
}

void print(const Candidate& candidate) {
  printf("  %8.2f us  %s, %d x %d\n", candidate.us, candidate.name.c_str(), candidate.blocks, candidate.threads);
}

void measure_size(const std::vector<Candidate>& variants, size_t size_bytes) {
  const std::vector<Candidate> measured = explore(variants, size_bytes);
  printf("\n%zu KiB\n", size_bytes / kKiB);
  for (Candidate& candidate : products(size_bytes)) {
    measure(candidate, size_bytes);
    print(candidate);
  }
  std::vector<Candidate> finalists = best_of(measured, 8);
  for (Candidate& candidate : finalists) measure(candidate, size_bytes);
  for (const Candidate& candidate : best_of(finalists, 5)) print(candidate);
  printf("  the best of each algorithm, and all modes of its shape:\n");
  for (const int algorithm : {pull, push, one_shot})
    for (const Candidate& best : best_of(measured, 1, algorithm)) {
      print(best);
      const auto shape_of = [](const Candidate& c) { return std::tuple(c.algorithm, c.batch, c.blocks, c.threads); };
      for (const Candidate& other : measured)
        if (shape_of(other) == shape_of(best))
          printf("%s%s %.2f", other.mode == 0 ? "              weak" : ",", kModes[other.mode].name, other.us);
      printf("\n");
    }
}

void measure_barriers() {
  std::vector<Candidate> rows = {
      {"empty kernel", empty},
      {"product", product<barrier_kernel>},
      {"st.release, ld.acquire", barrier_of<Send::release, Poll::acquire>},
      {"red.release, ld.acquire", barrier_of<Send::reduction, Poll::acquire>},
      {"atom.release, ld.acquire", barrier_of<Send::exchange, Poll::acquire>},
      {"fence and st.volatile, ld.volatile and fence", barrier_of<Send::fence, Poll::fence>},
      {"st.release, ld.volatile and fence", barrier_of<Send::release, Poll::fence>},
      {"st.relaxed, ld.acquire!", barrier_of<Send::relaxed, Poll::acquire>},
      {"st.release, ld.relaxed!", barrier_of<Send::release, Poll::relaxed>}};
  for (const int blocks : {8, 48, 132}) {
    rows.push_back({"empty kernel", empty, of_product, 1, 0, false, blocks, kThreads});
    rows.push_back({"two: product", product_two_shot, of_product, 1, 0, true, blocks, kThreads});
    rows.push_back({"two: per block", all_reduce<pull, 1, 0>, pull, 1, 0, true, blocks, kThreads});
    rows.push_back({"two: one flag", all_reduce<pull, 1, 1>, pull, 1, 1, true, blocks, kThreads});
    rows.push_back({"two: per block, half!", all_reduce<pull, 1, 2>, pull, 1, 2, true, blocks, kThreads});
  }
  printf("Barriers\n");
  for (Candidate& row : rows) {
    measure(row, 0);
    print(row);
  }
}

}  // namespace

int main() {
  setenv("CUDA_MODULE_LOADING", "EAGER", 1);  // loading a kernel can wait for those that run
  set_up();
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, 0));
  printf("%s\n", properties.name);
  measure_barriers();
  const std::vector<Candidate> variants = all_variants(std::make_index_sequence<3 * 4 * kModeCount>{});
  for (const size_t size_bytes : {2 * kKiB, 128 * kKiB, 512 * kKiB, 2 * kMiB, 8 * kMiB, 32 * kMiB, 128 * kMiB})
    measure_size(variants, size_bytes);
}
