// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Kernels that use an NCCL window and a device communicator (ncclDevCommCreate), before and after pauses. Needs NCCL 2.28 and
// NCCL_INCLUDE with its nccl_device.h:
//
// nvcc -std=c++17 -arch=native -I $NCCL_INCLUDE -o device_communicator tests/gpu/device_communicator.cu -lnccl
// mpirun -np 2 amem run -- ./device_communicator FILE_FOR_THE_UNIQUE_ID
//
// `./dev gpu` does so with a stock NCCL, and `./dev gpu --nccl DIR` with each, if its headers are in NCCL_INCLUDE, or in
// include beside it or its folder.
//
// amem does not see launches of such kernels. The ranks therefore pause when all kernels have ended, and launch the next ones
// after an ncclAllReduce(), which waits for ranks that are paused. Each rank appends a byte to the file to meet the others.
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <nccl.h>
#include <nccl_device.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace {

constexpr size_t kCount = 1 << 20;
constexpr int kCycles = 30;

void check(bool good, const char* what) {
  if (good) return;
  printf("failed: %s\n", what);
  exit(1);
}
#define CHECK_CUDA(call) check((call) == cudaSuccess, #call)
#define CHECK_NCCL(call) check((call) == ncclSuccess, #call)

__global__ void fill(float* values, int rank, int round) {
  const size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x;
  values[i] = static_cast<float>((i * 7 + rank * 13 + round * 31) % 97);
}

/// The sums over all ranks, read from their memory.
__global__ void sum_of_peers(ncclWindow_t window, ncclDevComm communicator, float* sums) {
  ncclLsaBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), communicator, ncclTeamTagLsa(), blockIdx.x);
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
  const size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x;
  float sum = 0;
  for (int peer = 0; peer < communicator.lsaSize; ++peer)
    sum += static_cast<const float*>(ncclGetLsaPointer(window, 0, peer))[i];
  sums[i] = sum;
  barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}

int number(const char* name, const char* other) {
  const char* text = getenv(name) != nullptr ? getenv(name) : getenv(other);
  check(text != nullptr, "no rank in the environment: start me with mpirun or torchrun");
  return atoi(text);
}

ncclUniqueId exchange_id(const std::string& path, int rank) {
  ncclUniqueId id;
  if (rank == 0) {
    CHECK_NCCL(ncclGetUniqueId(&id));
    std::ofstream(path + ".new", std::ios::binary).write(id.internal, sizeof id.internal);
    check(rename((path + ".new").c_str(), path.c_str()) == 0, "rename()");
    return id;
  }
  while (!std::ifstream(path, std::ios::binary).read(id.internal, sizeof id.internal)) {
  }
  return id;
}

class Job {
 public:
  Job(int rank, int ranks, const std::string& path) : rank_(rank), ranks_(ranks), path_(path) {
    const ncclUniqueId id = exchange_id(path, rank);
    int devices = 0;
    CHECK_CUDA(cudaGetDeviceCount(&devices));
    CHECK_CUDA(cudaSetDevice(rank % devices));
    CHECK_CUDA(cudaStreamCreate(&stream_));
    CHECK_NCCL(ncclCommInitRank(&comm_, ranks, id, rank));
    CHECK_NCCL(ncclMemAlloc(reinterpret_cast<void**>(&values_), kCount * sizeof(float)));
    CHECK_CUDA(cudaMalloc(&sums_, kCount * sizeof(float)));
    CHECK_NCCL(ncclCommWindowRegister(comm_, values_, kCount * sizeof(float), &window_, NCCL_WIN_COLL_SYMMETRIC));
#ifdef NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER
    ncclDevCommRequirements wanted = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
#else  // NCCL 2.28
    ncclDevCommRequirements wanted{};
#endif
    wanted.lsaBarrierCount = kCount / 256;
    CHECK_NCCL(ncclDevCommCreate(comm_, &wanted, &device_communicator_));
    check(device_communicator_.lsaSize == ranks, "the ranks cannot access each other's memory");
  }

  /// Returns when all ranks have come here.
  void meet_on_host() {
    std::ofstream(path_, std::ios::binary | std::ios::app).put('.');
    wanted_bytes_ += ranks_;
    while (std::ifstream(path_, std::ios::binary | std::ios::ate).tellg() < wanted_bytes_) {
    }
  }

  /// The same on the GPU.
  void meet() {
    CHECK_NCCL(ncclAllReduce(sums_, sums_, 1, ncclFloat, ncclSum, comm_, stream_));
    CHECK_CUDA(cudaStreamSynchronize(stream_));
  }

  void sum(int round) {
    fill<<<kCount / 256, 256, 0, stream_>>>(values_, rank_, round);
    sum_of_peers<<<kCount / 256, 256, 0, stream_>>>(window_, device_communicator_, sums_);
    std::vector<float> found(kCount);
    CHECK_CUDA(cudaMemcpyAsync(found.data(), sums_, kCount * sizeof(float), cudaMemcpyDefault, stream_));
    CHECK_CUDA(cudaStreamSynchronize(stream_));
    for (size_t i = 0; i < kCount; ++i) {
      float expected = 0;
      for (int rank = 0; rank < ranks_; ++rank) expected += static_cast<float>((i * 7 + rank * 13 + round * 31) % 97);
      if (found[i] == expected) continue;
      printf("rank %d, round %d: sum %zu is %g, not %g\n", rank_, round, i, found[i], expected);
      exit(1);
    }
  }

  void end() {
    CHECK_NCCL(ncclDevCommDestroy(comm_, &device_communicator_));
    CHECK_NCCL(ncclCommWindowDeregister(comm_, window_));
    CHECK_NCCL(ncclMemFree(values_));
    CHECK_NCCL(ncclCommDestroy(comm_));
  }

 private:
  const int rank_, ranks_;
  const std::string path_;
  std::streamoff wanted_bytes_ = sizeof(ncclUniqueId);
  cudaStream_t stream_ = nullptr;
  ncclComm_t comm_ = nullptr;
  ncclWindow_t window_ = nullptr;
  ncclDevComm device_communicator_;
  float *values_ = nullptr, *sums_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  check(argc == 2, "the argument is a file for the unique id");
  using Call = int(void**);
  auto* const pause = reinterpret_cast<Call*>(dlsym(RTLD_DEFAULT, "ncclPause"));
  auto* const resume = reinterpret_cast<Call*>(dlsym(RTLD_DEFAULT, "ncclResume"));
  check(pause != nullptr && resume != nullptr, "start me with amem run");
  const int rank = number("OMPI_COMM_WORLD_RANK", "RANK"), ranks = number("OMPI_COMM_WORLD_SIZE", "WORLD_SIZE");
  Job job(rank, ranks, argv[1]);
  job.sum(0);
  for (int cycle = 1; cycle <= kCycles; ++cycle) {
    job.meet();
    job.meet_on_host();
    // All ranks, or one.
    if (cycle % (ranks + 1) == ranks || cycle % (ranks + 1) == rank) check(pause(nullptr) == 0, "ncclPause()");
    job.meet_on_host();
    check(resume(nullptr) == 0, "ncclResume()");
    job.meet();
    job.sum(cycle);
  }
  job.end();
  printf("result: rank %d of %d: %d sums by a device communicator over pauses\n", rank, ranks, kCycles);
}
