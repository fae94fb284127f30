// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// All-gather overlapped with a matmul, in one process for each rank: C = all_gather(A) * B.
//
// Copy engines bring the parts of A from the peers. After each part, cuStreamWriteValue32 marks it as
// here. The kernel multiplies the parts in the order in which they arrive: its own first. It runs on all
// multiprocessors while the copy engines work.
//
//   nvcc -std=c++17 -arch=native examples/all_gather_matmul.cu -Ibuild/dev/include -Lbuild/dev/lib
//     -lamem_symmetric -lamem_nccl -lcuda -o build/all_gather_matmul
//   all_gather_matmul RANK WORLD_SIZE HOST:PORT
#include <cuda.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <vector>

#include "amem/groups.hpp"
#include "amem/symmetric.cuh"
#include "amem/symmetric.hpp"

namespace symmetric = amem::symmetric;

constexpr int kTile = 16;
constexpr int kRows = 256, kInner = 512, kColumns = 384;  // of one part of A, and of B

void check(cudaError_t result) {
  if (result != cudaSuccess) throw std::runtime_error(cudaGetErrorString(result));
}

/// The blocks of part number blockIdx.z, counted from this rank's own. `arrived[rank]` is `step` when the
/// part of a rank is in `a`.
__global__ void multiply_parts(const float* a, const float* b, float* c, const uint32_t* arrived,
                               uint32_t step, int rank, int world_size) {
  const int part = (rank + static_cast<int>(blockIdx.z)) % world_size;
  if (threadIdx.x == 0 && threadIdx.y == 0)
    while (symmetric::detail::load_acquire(arrived + part) != step) {
    }
  __syncthreads();
  __shared__ float tile_a[kTile][kTile], tile_b[kTile][kTile];
  const int row = part * kRows + blockIdx.y * kTile + threadIdx.y;
  const int column = blockIdx.x * kTile + threadIdx.x;
  float sum = 0;
  for (int at = 0; at < kInner; at += kTile) {
    tile_a[threadIdx.y][threadIdx.x] = a[row * kInner + at + threadIdx.x];
    tile_b[threadIdx.y][threadIdx.x] = b[(at + threadIdx.y) * kColumns + column];
    __syncthreads();
    for (int i = 0; i < kTile; ++i) sum += tile_a[threadIdx.y][i] * tile_b[i][threadIdx.x];
    __syncthreads();
  }
  c[row * kColumns + column] = sum;
}

float element(int rank, size_t index) {
  return static_cast<float>((index * 7 + rank * 13) % 11) - 5.0f;
}

class AllGatherMatmul {
 public:
  AllGatherMatmul(symmetric::Group& group)
      : rank_(group.rank()),
        world_size_(group.world_size()),
        buffer_(symmetric::empty(kPartBytes)),
        handle_(symmetric::rendezvous(buffer_, group)) {
    check(cudaStreamCreateWithFlags(&copies_, cudaStreamNonBlocking));
    check(cudaStreamCreateWithFlags(&compute_, cudaStreamNonBlocking));
    check(cudaEventCreateWithFlags(&ready_, cudaEventDisableTiming));
    check(cudaMalloc(&a_, kPartBytes * world_size_));
    check(cudaMalloc(&b_, sizeof(float) * kInner * kColumns));
    check(cudaMalloc(&c_, sizeof(float) * kRows * kColumns * world_size_));
    check(cudaMalloc(&arrived_, sizeof(uint32_t) * world_size_));
    check(cudaMemset(arrived_, 0, sizeof(uint32_t) * world_size_));
    std::vector<float> part(kRows * kInner), b(kInner * kColumns);
    for (size_t i = 0; i < part.size(); ++i) part[i] = element(rank_, i);
    for (size_t i = 0; i < b.size(); ++i) b[i] = element(17, i);
    check(cudaMemcpy(buffer_.data(), part.data(), kPartBytes, cudaMemcpyDefault));
    check(cudaMemcpy(b_, b.data(), b.size() * sizeof(float), cudaMemcpyDefault));
    check(cudaDeviceSynchronize());
  }

  void run(uint32_t step) {
    // The kernel of the previous step has read `a_`; all ranks have written their parts.
    check(cudaEventRecord(ready_, compute_));
    check(cudaStreamWaitEvent(copies_, ready_, 0));
    handle_.barrier(0, copies_);
    const dim3 blocks(kColumns / kTile, kRows / kTile, world_size_), threads(kTile, kTile);
    for (int i = 0; i < world_size_; ++i) {
      const int from = (rank_ + i) % world_size_;
      check(cudaMemcpyAsync(a_ + from * kRows * kInner, handle_.info().buffers[from], kPartBytes,
                            cudaMemcpyDefault, copies_));
      if (cuStreamWriteValue32(copies_, reinterpret_cast<CUdeviceptr>(arrived_ + from), step, 0) !=
          CUDA_SUCCESS)
        throw std::runtime_error("cuStreamWriteValue32() failed");
      // The own part is enough to start with.
      if (i == 0)
        multiply_parts<<<blocks, threads, 0, compute_>>>(a_, b_, c_, arrived_, step, rank_,
                                                         world_size_);
    }
    handle_.barrier(0, copies_);
    check(cudaStreamSynchronize(compute_));
    check(cudaStreamSynchronize(copies_));
    handle_.check_error();
  }

  void verify() const {
    std::vector<float> c(static_cast<size_t>(kRows) * kColumns * world_size_);
    check(cudaMemcpy(c.data(), c_, c.size() * sizeof(float), cudaMemcpyDefault));
    for (int row = 0; row < kRows * world_size_; row += 37)
      for (int column = 0; column < kColumns; column += 5) {
        double sum = 0;
        for (int i = 0; i < kInner; ++i)
          sum += static_cast<double>(element(row / kRows, (row % kRows) * kInner + i)) *
                 element(17, static_cast<size_t>(i) * kColumns + column);
        if (std::fabs(c[static_cast<size_t>(row) * kColumns + column] - sum) > 1e-3)
          throw std::runtime_error("a wrong element");
      }
  }

 private:
  static constexpr size_t kPartBytes = sizeof(float) * kRows * kInner;

  const int rank_, world_size_;
  symmetric::Buffer buffer_;
  symmetric::Handle handle_;
  cudaStream_t copies_ = nullptr, compute_ = nullptr;
  cudaEvent_t ready_ = nullptr;
  float *a_ = nullptr, *b_ = nullptr, *c_ = nullptr;
  uint32_t* arrived_ = nullptr;
};

int main(int argc, char** argv) try {
  if (argc != 4) return fprintf(stderr, "usage: %s RANK WORLD_SIZE HOST:PORT\n", argv[0]), 2;
  const int rank = atoi(argv[1]);
  int devices = 0;
  amemEnable();
  check(cudaGetDeviceCount(&devices));
  check(cudaSetDevice(rank % devices));
  check(cudaFree(nullptr));
  symmetric::TcpGroup group(argv[3], rank, atoi(argv[2]));
  AllGatherMatmul job(group);
  for (uint32_t step = 1; step <= 6; ++step) {
    job.run(step);
    job.verify();
    if (step != 3) continue;
    symmetric::check(amemPause("symmetric"));
    symmetric::check(amemResume("symmetric"));
  }
  char all[AMEM_SYMMETRIC_MAX_RANKS];
  group.all_gather("", 1, all);
  printf("rank %d: 6 steps verified, a pause after step 3\n", rank);
  return 0;
} catch (const std::exception& error) {
  fprintf(stderr, "failed: %s\n", error.what());
  return 1;
}
