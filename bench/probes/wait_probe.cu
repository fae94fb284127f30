// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Which calls wait for a device, what they do to captures, and how long launches of other threads stand still
// meanwhile (docs/decisions/0004-drain.md). Not part of the build, because it needs nvcc and a GPU:
//
//   nvcc -O2 -std=c++17 -o wait_probe bench/probes/wait_probe.cu -lcuda && ./wait_probe OTHERS
//
// OTHERS: processes that create and release memory without a pause; the driver works for one at a time.
#include <cuda.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#define CHECK(call)                                             \
  do {                                                          \
    if (const int code = static_cast<int>(call); code != 0) {   \
      fprintf(stderr, "%s: %d\n", #call, code);                 \
      exit(1);                                                  \
    }                                                           \
  } while (false)

__global__ void work(long long nanoseconds) {
  long long from, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(from));
  do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  while (now - from < nanoseconds);
}

static double now_us() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::micro>(now).count();
}

static CUcontext enter(int device) {
  CUcontext context;
  CHECK(cuInit(0));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
  return context;
}

// Until it is killed, or for a minute when whoever should do that has failed.
static void keep_the_driver_busy(int device) {
  alarm(60);
  enter(device);
  constexpr size_t kBytes = size_t{256} << 20, kObjects = 16;
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  const CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUdeviceptr range;
  CHECK(cuMemAddressReserve(&range, kBytes * kObjects, 0, 0, 0));
  for (;;) {
    CUmemGenericAllocationHandle handles[kObjects];
    for (size_t i = 0; i < kObjects; ++i) {
      CHECK(cuMemCreate(&handles[i], kBytes, &properties, 0));
      CHECK(cuMemMap(range + i * kBytes, kBytes, 0, handles[i], 0));
      CHECK(cuMemSetAccess(range + i * kBytes, kBytes, &access, 1));
    }
    for (size_t i = 0; i < kObjects; ++i) {
      CHECK(cuMemUnmap(range + i * kBytes, kBytes));
      CHECK(cuMemRelease(handles[i]));
    }
  }
}

struct Way {
  const char* name;
  std::function<CUresult()> call;
};

static std::vector<Way> ways(CUcontext context) {
  static CUevent event;
  static void* const page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CUdeviceptr stays;
  void* pinned_stays;
  CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  CHECK(cuMemAlloc(&stays, 4096));
  CHECK(cuMemHostAlloc(&pinned_stays, 4096, 0));
  return {{"cuCtxSynchronize", [] { return cuCtxSynchronize(); }},
          {"cuCtxRecordEvent",
           [context] {
             const CUresult recorded = cuCtxRecordEvent(context, event);
             return recorded == CUDA_SUCCESS ? cuEventSynchronize(event) : recorded;
           }},
          {"cuMemHostRegister",
           [] {
             const CUresult registered = cuMemHostRegister(page, 4096, 0);
             return registered == CUDA_SUCCESS ? cuMemHostUnregister(page) : registered;
           }},
          {"cuArrayCreate",
           [] {
             const CUDA_ARRAY_DESCRIPTOR shape = {16, 16, CU_AD_FORMAT_FLOAT, 1};
             CUarray array;
             const CUresult created = cuArrayCreate(&array, &shape);
             return created == CUDA_SUCCESS ? cuArrayDestroy(array) : created;
           }},
          {"cuMemAlloc",
           [] {
             CUdeviceptr piece;
             const CUresult allocated = cuMemAlloc(&piece, 64);
             return allocated == CUDA_SUCCESS ? cuMemFree(piece) : allocated;
           }},
          {"cuMemHostAlloc", [] {
             void* piece;
             const CUresult allocated = cuMemHostAlloc(&piece, 64, 0);
             return allocated == CUDA_SUCCESS ? cuMemFreeHost(piece) : allocated;
           }}};
}

static void try_waiting_and_captures(CUcontext context, const Way& way) {
  cudaStream_t busy, captured;
  CHECK(cudaStreamCreateWithFlags(&busy, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&captured, cudaStreamNonBlocking));
  work<<<1, 1, 0, busy>>>(50'000'000);
  const double from = now_us();
  const int result = way.call();
  printf("%-18s returns %d after %.0f us of 50000;", way.name, result, now_us() - from);
  for (const auto mode :
       {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed}) {
    CHECK(cudaStreamBeginCapture(captured, mode));
    work<<<1, 1, 0, captured>>>(0);
    int during = 0;
    std::thread([&] {
      CHECK(cuCtxSetCurrent(context));
      CUstreamCaptureMode relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
      CHECK(cuThreadExchangeStreamCaptureMode(&relaxed));
      during = way.call();
    }).join();
    cudaGraph_t graph = nullptr;
    const int ended = cudaStreamEndCapture(captured, &graph);
    (void)cudaGetLastError();
    if (graph != nullptr) CHECK(cudaGraphDestroy(graph));
    printf(" in a capture %d, which ends with %d;", during, ended);
  }
  printf("\n");
}

int main(int argc, char** argv) {
  std::vector<pid_t> others(argc > 1 ? static_cast<size_t>(atoi(argv[1])) : 0);
  for (pid_t& other : others)
    if ((other = fork()) == 0) keep_the_driver_busy(0);
  const CUcontext context = enter(0);
  const std::vector<Way> all = ways(context);
  for (const Way& way : all) try_waiting_and_captures(context, way);

  std::atomic<bool> begun{false}, stop{false};
  std::vector<double> rounds;
  std::thread launcher([&] {
    CHECK(cuCtxSetCurrent(context));
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (; !stop; begun = true) {
      work<<<1, 1, 0, stream>>>(1000);
      CHECK(cudaStreamSynchronize(stream));
      rounds.push_back(now_us());
    }
  });
  while (!begun) usleep(100);
  struct Call {
    double from, to;
  };
  constexpr int kCalls = 21;
  std::vector<std::vector<Call>> calls(all.size());
  for (size_t way = 0; way < all.size(); ++way)
    for (int i = 0; i < kCalls; ++i) {
      usleep(2000);
      const double from = now_us();
      CHECK(all[way].call());
      calls[way].push_back({from, now_us()});
    }
  usleep(2000);
  stop = true;
  launcher.join();
  for (size_t way = 0; way < all.size(); ++way) {
    std::vector<double> took, longest;
    for (const Call& call : calls[way]) {
      took.push_back(call.to - call.from);
      double most = 0;
      for (size_t i = 1; i < rounds.size(); ++i)
        if (rounds[i] > call.from && rounds[i - 1] < call.to) most = std::max(most, rounds[i] - rounds[i - 1]);
      longest.push_back(most);
    }
    std::sort(took.begin(), took.end());
    std::sort(longest.begin(), longest.end());
    printf("%-18s takes %.0f us (%.0f), longest round meanwhile %.0f us (%.0f)\n", all[way].name,
           took[kCalls / 2], took.back(), longest[kCalls / 2], longest.back());
  }
  for (const pid_t other : others) kill(other, SIGKILL);
  while (wait(nullptr) > 0) {
  }
  return 0;
}
