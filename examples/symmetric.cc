// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Symmetric memory in C++: each rank reads from, writes to and updates the buffer of its neighbor,
// with a pause in the middle. One process for each rank, each on a GPU:
//
//   symmetric RANK WORLD_SIZE HOST:PORT [MIB]
//
// Prints how many bytes the pause has released and that all contents were verified.
#include "amem/symmetric.hpp"

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "amem/groups.hpp"

// As cuda.h declares them.
extern "C" {
int cuInit(unsigned);
int cuDeviceGetCount(int*);
int cuDevicePrimaryCtxRetain(struct CUctx_st**, int);
int cuCtxSetCurrent(struct CUctx_st*);
int cuStreamCreate(amemStream_t*, unsigned);
int cuStreamSynchronize(amemStream_t);
int cuMemGetInfo_v2(size_t*, size_t*);
int cuMemcpyAsync(unsigned long long, unsigned long long, size_t, amemStream_t);
int cuMemsetD32Async(unsigned long long, unsigned, size_t, amemStream_t);
}

namespace {

namespace symmetric = amem::symmetric;

void check_cuda(int result) {
  if (result != 0) throw std::runtime_error("CUDA error " + std::to_string(result));
}

unsigned long long address(const void* pointer) {
  return reinterpret_cast<unsigned long long>(pointer);
}

amemStream_t start_device(int rank) {
  int count = 0;
  struct CUctx_st* context = nullptr;
  amemStream_t stream = nullptr;
  check_cuda(cuInit(0));
  check_cuda(cuDeviceGetCount(&count));
  check_cuda(cuDevicePrimaryCtxRetain(&context, rank % count));
  check_cuda(cuCtxSetCurrent(context));
  check_cuda(cuStreamCreate(&stream, 1));
  return stream;
}

size_t free_bytes() {
  size_t free = 0, total = 0;
  check_cuda(cuMemGetInfo_v2(&free, &total));
  return free;
}

class Example {
 public:
  Example(symmetric::Group& group, size_t bytes, amemStream_t stream)
      : rank_(static_cast<unsigned>(group.rank())),
        next_((group.rank() + 1) % group.world_size()),
        previous_((group.rank() + group.world_size() - 1) % group.world_size()),
        count_(bytes / sizeof(unsigned)),
        stream_(stream),
        buffer_(symmetric::empty(bytes)),
        handle_(symmetric::rendezvous(buffer_, group)),
        peer_(handle_.get_buffer<unsigned, 1>(next_, {count_}).data) {}

  void pull() {
    fill(buffer_.data(), rank_);
    handle_.barrier(0, stream_);
    expect(peer_, static_cast<unsigned>(next_));
    handle_.barrier(0, stream_);
  }
  void push() {
    handle_.barrier(0, stream_);
    fill(peer_, rank_ + 100);
    handle_.barrier(0, stream_);
    expect(buffer_.data(), static_cast<unsigned>(previous_) + 100);
  }
  void add() {
    fill(buffer_.data(), rank_);
    handle_.all_reduce(buffer_.data(), 0, count_, amemFloat32, amemAllReduceAuto, stream_);
    handle_.put_signal(next_, 0, stream_);
    handle_.wait_signal(previous_, 0, stream_);
    check_cuda(cuStreamSynchronize(stream_));
    handle_.check_error();
  }
  /// Other ranks go on at once: calls that need this one wait until it has resumed.
  size_t pause_and_resume() {
    const size_t before = free_bytes();
    symmetric::check(amemPause("symmetric"));
    const size_t freed = free_bytes() - before;
    symmetric::check(amemResume("symmetric"));
    expect(buffer_.data(), static_cast<unsigned>(previous_) + 100);
    return freed;
  }

 private:
  void fill(void* to, unsigned value) {
    check_cuda(cuMemsetD32Async(address(to), value, count_, stream_));
  }
  void expect(const void* from, unsigned value) {
    std::vector<unsigned> words(count_);
    check_cuda(
        cuMemcpyAsync(address(words.data()), address(from), count_ * sizeof(unsigned), stream_));
    check_cuda(cuStreamSynchronize(stream_));
    handle_.check_error();
    for (const unsigned word : words)
      if (word != value)
        throw std::runtime_error("found " + std::to_string(word) + ", not " +
                                 std::to_string(value));
  }

  const unsigned rank_;
  const int next_, previous_;
  const size_t count_;
  amemStream_t stream_;
  symmetric::Buffer buffer_;
  symmetric::Handle handle_;
  unsigned* peer_;
};

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 4) {
    fprintf(stderr, "usage: %s RANK WORLD_SIZE HOST:PORT [MIB]\n", argv[0]);
    return 2;
  }
  const int rank = atoi(argv[1]), world_size = atoi(argv[2]);
  const size_t mib = argc > 4 ? strtoul(argv[4], nullptr, 10) : 32;
  amemEnable();
  amemStream_t stream = start_device(rank);
  symmetric::TcpGroup group(argv[3], rank, world_size);
  Example example(group, mib << 20, stream);
  example.pull();
  example.push();
  const size_t freed = example.pause_and_resume();
  example.pull();
  example.push();
  example.add();
  // No rank frees its memory while another one still uses it.
  char all[AMEM_SYMMETRIC_MAX_RANKS];
  group.all_gather("", 1, all);
  printf("freed_bytes %zu verified\n", freed);
  return 0;
} catch (const std::exception& error) {
  fprintf(stderr, "rank %s failed: %s\n", argc > 1 ? argv[1] : "?", error.what());
  return 1;
}
