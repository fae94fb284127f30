// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Kernels for torch_deep_stack.py: one that recurses, as deep as the stack limit of the context lets it, and one that lasts.
#include <cuda_runtime.h>

namespace {

__device__ __noinline__ unsigned recurse(unsigned depth, unsigned value) {
  volatile unsigned frame[64];
  for (unsigned i = 0; i < 64; ++i) frame[i] = value + i;
  const unsigned below = depth == 0 ? value : recurse(depth - 1, value * 1664525u + 1013904223u);
  return below + frame[value % 64];
}

__global__ void recursive(unsigned depth, unsigned* sums) {
  const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  sums[thread] = recurse(depth, thread);
}

__device__ unsigned long long nanoseconds() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

__global__ void lasting(unsigned long long for_ns) {
  const unsigned long long until = nanoseconds() + for_ns;
  while (nanoseconds() < until) {
  }
}

}  // namespace

extern "C" int set_stack_bytes(size_t bytes) { return cudaDeviceSetLimit(cudaLimitStackSize, bytes); }

extern "C" int stack_bytes(size_t* bytes) { return cudaDeviceGetLimit(bytes, cudaLimitStackSize); }

extern "C" int launch_recursive(unsigned depth, unsigned blocks, unsigned threads, unsigned* sums, cudaStream_t stream) {
  recursive<<<blocks, threads, 0, stream>>>(depth, sums);
  return cudaGetLastError();
}

extern "C" int launch_lasting(unsigned long long for_ns, cudaStream_t stream) {
  lasting<<<1, 1, 0, stream>>>(for_ns);
  return cudaGetLastError();
}
