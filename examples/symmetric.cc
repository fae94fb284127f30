// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// The example of PyTorch's symmetric memory in C++: each rank reads from its neighbor's buffer
// (pull), writes to it (push), and updates it in a kernel (direct), before and after a pause. One
// process for each rank, each on a GPU:
//
//   symmetric RANK WORLD_SIZE HOST:PORT [MIB]
//
// Prints how many bytes the pause has released and that all contents were verified.
#include "amem/symmetric.hpp"

#include <bit>
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
int cuMemAlloc_v2(unsigned long long*, size_t);
int cuMemcpyAsync(unsigned long long, unsigned long long, size_t, amemStream_t);
int cuMemsetD32Async(unsigned long long, unsigned, size_t, amemStream_t);
int cuModuleLoadData(struct CUmod_st**, const void*);
int cuModuleGetFunction(struct CUfunc_st**, struct CUmod_st*, const char*);
int cuLaunchKernel(struct CUfunc_st*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                   unsigned, amemStream_t, void**, void**);
}

namespace {

namespace symmetric = amem::symmetric;

// values[i] += addend, in one thread for each i. The simulated GPU knows it by name
// (sim/kernel.cc).
constexpr char kAddPtx[] = R"(
.version 5.0
.target sm_60
.address_size 64
.visible .entry amem_example_add(.param .u64 values, .param .u64 count, .param .f32 addend)
{
  .reg .u64 %values, %count, %i, %offset, %at;
  .reg .u32 %block, %threads, %thread;
  .reg .f32 %value, %addend;
  .reg .pred %outside;

  ld.param.u64 %values, [values];
  ld.param.u64 %count, [count];
  ld.param.f32 %addend, [addend];
  mov.u32 %block, %ctaid.x;
  mov.u32 %threads, %ntid.x;
  mov.u32 %thread, %tid.x;
  mul.wide.u32 %i, %block, %threads;
  cvt.u64.u32 %offset, %thread;
  add.u64 %i, %i, %offset;
  setp.ge.u64 %outside, %i, %count;
  @%outside bra done;
  mad.lo.u64 %at, %i, 4, %values;
  ld.global.f32 %value, [%at];
  add.f32 %value, %value, %addend;
  st.global.f32 [%at], %value;
done:
  ret;
}
)";

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
      : rank_(group.rank()),
        next_((rank_ + 1) % group.world_size()),
        previous_((rank_ + group.world_size() - 1) % group.world_size()),
        count_(bytes / sizeof(float)),
        stream_(stream),
        buffer_(symmetric::empty(bytes)),
        handle_(symmetric::rendezvous(buffer_, group)),
        t_(static_cast<float*>(buffer_.data())),
        peer_(handle_.get_buffer<float, 1>(next_, {count_}).data) {
    struct CUmod_st* module = nullptr;
    check_cuda(cuModuleLoadData(&module, kAddPtx));
    check_cuda(cuModuleGetFunction(&add_, module, "amem_example_add"));
    check_cuda(cuMemAlloc_v2(&own_, bytes));
  }

  void run() {
    pull();
    push();
    direct();
  }
  /// Calls of other ranks that need this one wait until it has resumed.
  size_t pause_and_resume() {
    const size_t before = free_bytes();
    symmetric::check(amemPause("symmetric"));
    const size_t freed = free_bytes() - before;
    symmetric::check(amemResume("symmetric"));
    expect("contents after the pause", address(t_), rank_ + previous_);
    return freed;
  }
  void all_reduce() {
    fill(address(t_), rank_);
    handle_.all_reduce(t_, 0, count_, amemFloat32, amemAllReduceAuto, stream_);
    const int ranks = handle_.world_size();
    expect("all-reduce", address(t_), ranks * (ranks - 1) / 2);
  }
  void signal() {
    handle_.put_signal(next_, 0, stream_);
    handle_.wait_signal(previous_, 0, stream_);
    handle_.barrier(0, stream_);
    const size_t words = handle_.info().signal_pad_bytes / sizeof(uint32_t);
    const uint32_t* const pad = handle_.get_signal_pad<1>(rank_, {words}).data;
    for (const uint32_t word : read<uint32_t>(address(pad), words))
      if (word != 0) throw std::runtime_error("a signal is left in the signal pad");
  }

 private:
  void pull() {
    fill(address(t_), rank_);
    handle_.barrier(0, stream_);
    copy(own_, address(peer_));
    handle_.barrier(0, stream_);
    expect("pull", own_, next_);
  }
  void push() {
    handle_.barrier(0, stream_);
    fill(own_, rank_);
    copy(address(peer_), own_);
    handle_.barrier(0, stream_);
    expect("push", address(t_), previous_);
  }
  void direct() {
    fill(address(t_), rank_);
    handle_.barrier(0, stream_);
    add(peer_, static_cast<float>(rank_));
    handle_.barrier(0, stream_);
    expect("direct", address(t_), rank_ + previous_);
  }

  void fill(unsigned long long to, int value) {
    const auto bits = std::bit_cast<unsigned>(static_cast<float>(value));
    check_cuda(cuMemsetD32Async(to, bits, count_, stream_));
  }
  void copy(unsigned long long to, unsigned long long from) {
    check_cuda(cuMemcpyAsync(to, from, count_ * sizeof(float), stream_));
  }
  void add(float* values, float addend) {
    constexpr unsigned kThreads = 256;
    size_t count = count_;
    void* parameters[] = {&values, &count, &addend};
    const auto blocks = static_cast<unsigned>((count + kThreads - 1) / kThreads);
    check_cuda(cuLaunchKernel(add_, blocks, 1, 1, kThreads, 1, 1, 0, stream_, parameters, nullptr));
  }
  template <typename T>
  std::vector<T> read(unsigned long long from, size_t count) {
    std::vector<T> values(count);
    check_cuda(cuMemcpyAsync(address(values.data()), from, count * sizeof(T), stream_));
    check_cuda(cuStreamSynchronize(stream_));
    handle_.check_error();
    return values;
  }
  void expect(const char* what, unsigned long long from, int wanted) {
    for (const float value : read<float>(from, count_))
      if (value != static_cast<float>(wanted))
        throw std::runtime_error(std::string(what) + ": found " + std::to_string(value) + ", not " +
                                 std::to_string(wanted));
  }

  const int rank_, next_, previous_;
  const size_t count_;
  amemStream_t stream_;
  symmetric::Buffer buffer_;
  symmetric::Handle handle_;
  float *t_, *peer_;
  struct CUfunc_st* add_ = nullptr;
  unsigned long long own_ = 0;  ///< memory of this rank only, of the same size
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
  example.run();
  char all[AMEM_SYMMETRIC_MAX_RANKS];
  const size_t freed = example.pause_and_resume();
  // Kernels that wait for a rank must not run while it pauses.
  group.all_gather("", 1, all);
  example.run();
  example.all_reduce();
  example.signal();
  // No rank frees its memory while another one still uses it.
  group.all_gather("", 1, all);
  printf("freed_bytes %zu verified\n", freed);
  return 0;
} catch (const std::exception& error) {
  fprintf(stderr, "rank %s failed: %s\n", argc > 1 ? argv[1] : "?", error.what());
  return 1;
}
