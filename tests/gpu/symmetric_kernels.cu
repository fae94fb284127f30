// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// An application's kernels with amem/symmetric.cuh: get, put, barrier and signals, in a graph that is captured once, over
// pauses. One process for each rank:
//
//   nvcc -std=c++17 -arch=native tests/gpu/symmetric_kernels.cu -Ibuild/dev/include -Lbuild/dev/lib -lamem_symmetric -lamem_nccl -o symmetric_kernels
//   symmetric_kernels RANK WORLD_SIZE HOST:PORT
#include <cuda_runtime.h>

#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "amem/groups.hpp"
#include "amem/symmetric.cuh"
#include "amem/symmetric.hpp"

namespace symmetric = amem::symmetric;

constexpr unsigned kBlocks = 16, kThreads = 256;
constexpr size_t kSliceBytes = 16 * 1031;  // of one block: no multiple of what its threads copy at once
constexpr size_t kBytes = kBlocks * kSliceBytes;
constexpr uint32_t kTokens = 50, kToken = 1, kTaken = 2;  // the last two are channels of signals
constexpr int kCycles = 10;

void check(cudaError_t result) {
  if (result != cudaSuccess) throw std::runtime_error(cudaGetErrorString(result));
}

/// The buffer of a rank has its input, then what the previous rank puts there, then a token. Each block has a slice, and
/// meets the block with the same index of the other ranks.
__global__ void exchange(const __grid_constant__ symmetric::View view, const unsigned char* own, unsigned char* fetched,
                         uint32_t* failures) {
  const uint32_t next = (view.rank + 1) % view.world_size, previous = (view.rank + view.world_size - 1) % view.world_size;
  const symmetric::Block block{0, 1, blockDim.x};
  const size_t slice = blockIdx.x * kSliceBytes;
  bool met = symmetric::barrier(block, view, blockIdx.x);  // all inputs are there
  if (met) symmetric::get(block, view, previous, slice, fetched + slice, kSliceBytes);
  if (met) symmetric::put(block, view, next, kBytes + slice, own + slice, kSliceBytes);
  met = met && symmetric::barrier(block, view, blockIdx.x);
  if (!met && threadIdx.x == 0) atomicAdd(failures, 1);
}

/// Tokens around the ring, each in the same word: a signal says that it is there, another one that it was read.
__global__ void pass_tokens(const __grid_constant__ symmetric::View view, uint32_t* failures) {
  const uint32_t next = (view.rank + 1) % view.world_size, previous = (view.rank + view.world_size - 1) % view.world_size;
  const symmetric::Block block = symmetric::Block::current();
  auto* const to = reinterpret_cast<uint32_t*>(view.buffers[next] + 2 * kBytes) + threadIdx.x;
  auto* const mine = reinterpret_cast<uint32_t*>(view.buffers[view.rank] + 2 * kBytes) + threadIdx.x;
  for (uint32_t token = 1; token <= kTokens; ++token) {
    *to = 1000 * token + threadIdx.x;
    bool signalled = symmetric::put_signal(block, view, next, kToken) &&
                     symmetric::wait_signal(block, view, previous, kToken);
    const uint32_t found = *static_cast<volatile uint32_t*>(mine);
    if (!signalled || found != 1000 * token + threadIdx.x) atomicAdd(failures, 1);
    if (!signalled || !symmetric::put_signal(block, view, previous, kTaken) ||
        !symmetric::wait_signal(block, view, next, kTaken))
      return;
  }
}

std::vector<unsigned char> bytes_of(int rank, int cycle) {
  std::vector<unsigned char> bytes(kBytes);
  for (size_t i = 0; i < kBytes; ++i) bytes[i] = static_cast<unsigned char>((i * 7 + i / 251) + 31 * rank + 89 * cycle);
  return bytes;
}

class Job {
 public:
  explicit Job(symmetric::Group& group)
      : rank_(group.rank()),
        previous_((rank_ + group.world_size() - 1) % group.world_size()),
        buffer_(symmetric::empty(2 * kBytes + kThreads * sizeof(uint32_t))),
        handle_(symmetric::rendezvous(buffer_, group)) {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    check(cudaMalloc(&own_, kBytes));
    check(cudaMalloc(&fetched_, kBytes));
    check(cudaMalloc(&failures_, sizeof(uint32_t)));
    check(cudaMemset(failures_, 0, sizeof(uint32_t)));
    cudaGraph_t graph;
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    exchange<<<kBlocks, kThreads, 0, stream_>>>(handle_.view(), own_, fetched_, failures_);
    pass_tokens<<<1, kThreads, 0, stream_>>>(handle_.view(), failures_);
    check(cudaStreamEndCapture(stream_, &graph));
    check(cudaGraphInstantiate(&graph_, graph, 0));
  }

  void run(int cycle) {
    const std::vector<unsigned char> mine = bytes_of(rank_, cycle);
    check(cudaMemcpy(buffer_.data(), mine.data(), kBytes, cudaMemcpyDefault));
    check(cudaMemcpy(own_, mine.data(), kBytes, cudaMemcpyDefault));
    check(cudaMemset(fetched_, 0, kBytes));
    check(cudaDeviceSynchronize());
    handle_.barrier(63, stream_);  // waits on the host while the peer is paused; replays do not
    check(cudaGraphLaunch(graph_, stream_));
    check(cudaStreamSynchronize(stream_));
    handle_.check_error();
    expect("get", fetched_, cycle);
    expect("put", static_cast<unsigned char*>(buffer_.data()) + kBytes, cycle);
    if (read<uint32_t>(failures_, 1)[0] != 0) throw std::runtime_error("wrong tokens, or waits that failed");
    const auto& info = handle_.info();
    for (const uint32_t word : read<uint32_t>(info.signal_pads[rank_], info.signal_pad_bytes / sizeof(uint32_t)))
      if (word != 0) throw std::runtime_error("a signal is left in the pad");
  }

 private:
  template <typename T>
  std::vector<T> read(const void* from, size_t count) const {
    std::vector<T> values(count);
    check(cudaMemcpy(values.data(), from, count * sizeof(T), cudaMemcpyDefault));
    return values;
  }
  void expect(const char* what, const unsigned char* from, int cycle) const {
    if (read<unsigned char>(from, kBytes) != bytes_of(previous_, cycle))
      throw std::runtime_error(std::string(what) + ": wrong bytes in cycle " + std::to_string(cycle));
  }

  const int rank_, previous_;
  symmetric::Buffer buffer_;
  symmetric::Handle handle_;
  cudaStream_t stream_ = nullptr;
  cudaGraphExec_t graph_ = nullptr;
  unsigned char *own_ = nullptr, *fetched_ = nullptr;
  uint32_t* failures_ = nullptr;
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
  char all[AMEM_SYMMETRIC_MAX_RANKS];
  Job job(group);
  for (int cycle = 0; cycle < kCycles; ++cycle) {
    job.run(cycle);
    group.all_gather("", 1, all);  // no rank replays while another one is paused
    if (cycle % 2 == rank % 2) {
      symmetric::check(amemPause("symmetric"));
      symmetric::check(amemResume("symmetric"));
    }
    group.all_gather("", 1, all);
  }
  printf("result: rank %d: %d replays of get, put, barrier and signals, a pause after each\n", rank, kCycles);
  return 0;
} catch (const std::exception& error) {
  fprintf(stderr, "failed: %s\n", error.what());
  return 1;
}
