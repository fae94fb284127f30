// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// A program that contains the CUDA runtime (-cudart static) and knows amem only by dlsym(3): under `amem run --tensors job`
// all memory of cudaMalloc() is paused, a graph captured before replays afterwards. nvcc -arch=native, see cases.py.
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr size_t kCount = size_t{64} << 20;  // 256 MiB
constexpr int kCycles = 20;

__global__ void add_one(unsigned* values, size_t count) {
  const size_t stride = size_t{gridDim.x} * blockDim.x;
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count; i += stride) values[i] += 1;
}

void check(int code, const char* what) {
  if (code == 0) return;
  printf("%s returned %d\n", what, code);
  exit(1);
}

size_t free_bytes() {
  size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo()");
  return free;
}

}  // namespace

int main() {
  using Call = int(const char*);
  auto* const pause = reinterpret_cast<Call*>(dlsym(RTLD_DEFAULT, "amemPause"));
  auto* const resume = reinterpret_cast<Call*>(dlsym(RTLD_DEFAULT, "amemResume"));
  if (pause == nullptr || resume == nullptr) return puts("run me with: amem run --tensors job"), 1;

  unsigned *values = nullptr, *other = nullptr;
  check(cudaMalloc(&values, kCount * sizeof *values), "cudaMalloc()");
  check(cudaMalloc(&other, kCount * sizeof *other), "cudaMalloc()");
  std::vector<unsigned> expected(kCount), found(kCount);
  for (size_t i = 0; i < kCount; ++i) expected[i] = static_cast<unsigned>(i * 2654435761u);
  check(cudaMemcpy(values, expected.data(), kCount * sizeof *values, cudaMemcpyHostToDevice), "cudaMemcpy()");

  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  check(cudaStreamCreate(&stream), "cudaStreamCreate()");
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture()");
  add_one<<<512, 256, 0, stream>>>(values, kCount);
  check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture()");
  check(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate()");

  size_t least_freed = SIZE_MAX;
  for (int cycle = 1; cycle <= kCycles; ++cycle) {
    check(cudaGraphLaunch(executable, stream), "cudaGraphLaunch()");
    const size_t before = free_bytes();
    check(pause("job"), "amemPause()");
    const size_t freed = free_bytes() - before;
    if (freed < least_freed) least_freed = freed;
    check(resume("job"), "amemResume()");
  }
  check(cudaMemcpy(found.data(), values, kCount * sizeof *values, cudaMemcpyDeviceToHost), "cudaMemcpy()");
  for (size_t i = 0; i < kCount; ++i)
    if (found[i] != expected[i] + kCycles) return printf("value %zu is %u\n", i, found[i]), 1;
  check(cudaFree(values), "cudaFree()");
  check(cudaFree(other), "cudaFree()");
  if (least_freed < 2 * kCount * sizeof *values) return printf("%zu bytes were freed\n", least_freed), 1;
  printf("result: %d pauses released %zu MiB, contents and graph right\n", kCycles, least_freed >> 20);
}
