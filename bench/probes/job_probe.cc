// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// What the driver's calls of a pause and a resume of several GPUs cost without amem: each process,
// one for each GPU, unmaps what it has imported, copies and releases its own memory; then it
// creates, maps and fills it, and maps the others' again (docs/benchmarks.md). Not part of the
// build, because it needs GPUs and libcuda:
//
//   g++ -O2 -std=c++20 -o job_probe bench/probes/job_probe.cc -I$CUDA_HOME/include -lcuda -lpthread
//   ./job_probe GPUS OWN_OBJECTS OWN_MIB IMPORTED_OBJECTS COPIED_MIB [CYCLES]
//
// Objects and MiB are those of one process, as `amem_bench --what pause` prints them. Milliseconds
// of the slowest process, medians. pidfd_getfd(2) passes descriptors between processes: run it as
// root.
#include <cuda.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

constexpr int kMaxGpus = 16, kMaxObjects = 1024, kMaxCycles = 64;

void check(int code, const char* call) {
  if (code == 0) return;
  fprintf(stderr, "%s: %d\n", call, code);
  exit(1);
}
#define CHECK(call) check(static_cast<int>(call), #call)

enum Phase { kUnmapImports, kCopyOut, kRelease, kCreate, kCopyIn, kImport, kPhases };
constexpr const char* kNames[] = {"unmap imports", "copy out", "release",
                                  "create",        "copy in",  "import"};

/// Between the processes.
struct Shared {
  pthread_barrier_t barrier;
  pid_t pids[kMaxGpus];
  int descriptors[kMaxGpus][kMaxObjects];
  double ms[kMaxCycles][kMaxGpus][kPhases];
};
Shared* g_shared;

struct Size {
  int gpus, own, imported, cycles;
  size_t object_bytes, copied_bytes;
};

class Rank {
 public:
  Rank(int rank, const Size& size)
      : rank_(rank), size_(size), own_(size.own), imports_(size.imported) {
    CHECK(cuInit(0));
    CUcontext context;
    CHECK(cuDevicePrimaryCtxRetain(&context, rank));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuMemHostAlloc(&host_, size.copied_bytes, 0));
    CHECK(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
    for (std::vector<Mapped>* all : {&own_, &imports_})
      for (Mapped& each : *all)
        CHECK(cuMemAddressReserve(&each.address, size.object_bytes, 0, 0, 0));
    g_shared->pids[rank] = getpid();
    create();
    meet();
    import();
    meet();
  }

  void run_cycle(int cycle) {
    double* ms = g_shared->ms[cycle][rank_];
    meet();
    ms[kUnmapImports] = time([&] { drop(imports_); });
    meet();
    ms[kCopyOut] = time([&] { copy(true); });
    ms[kRelease] = time([&] { drop(own_); });
    for (int i = 0; i < size_.own; ++i) close(g_shared->descriptors[rank_][i]);
    meet();
    ms[kCreate] = time([&] { create(); });
    ms[kCopyIn] = time([&] { copy(false); });
    meet();
    ms[kImport] = time([&] { import(); });
    meet();
  }

 private:
  struct Mapped {
    CUdeviceptr address = 0;
    CUmemGenericAllocationHandle handle = 0;
  };

  static void meet() { pthread_barrier_wait(&g_shared->barrier); }

  template <typename Work>
  static double time(Work work) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
        .count();
  }

  void map(const Mapped& each) {
    CHECK(cuMemMap(each.address, size_.object_bytes, 0, each.handle, 0));
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, rank_},
                              CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CHECK(cuMemSetAccess(each.address, size_.object_bytes, &access, 1));
  }

  void drop(const std::vector<Mapped>& all) {
    for (const Mapped& each : all) {
      CHECK(cuMemUnmap(each.address, size_.object_bytes));
      CHECK(cuMemRelease(each.handle));
    }
  }

  void create() {
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, rank_};
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    for (int i = 0; i < size_.own; ++i) {
      CHECK(cuMemCreate(&own_[i].handle, size_.object_bytes, &properties, 0));
      map(own_[i]);
      CHECK(cuMemExportToShareableHandle(&g_shared->descriptors[rank_][i], own_[i].handle,
                                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    }
  }

  /// The copied bytes are spread evenly over the objects.
  void copy(bool out) {
    const size_t piece = size_.copied_bytes / size_.own;
    for (int i = 0; i < size_.own; ++i) {
      char* host = static_cast<char*>(host_) + i * piece;
      CHECK(out ? cuMemcpyDtoHAsync(host, own_[i].address, piece, stream_)
                : cuMemcpyHtoDAsync(own_[i].address, host, piece, stream_));
    }
    CHECK(cuStreamSynchronize(stream_));
  }

  /// Objects of the other processes in turn.
  void import() {
    for (int i = 0; i < size_.imported; ++i) {
      const int peer = (rank_ + 1 + i % (size_.gpus - 1)) % size_.gpus;
      const int number = i / (size_.gpus - 1) % size_.own;
      const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, g_shared->pids[peer], 0));
      const int fd =
          static_cast<int>(syscall(SYS_pidfd_getfd, pidfd, g_shared->descriptors[peer][number], 0));
      if (fd < 0) check(-1, "pidfd_getfd()");
      CHECK(cuMemImportFromShareableHandle(&imports_[i].handle,
                                           reinterpret_cast<void*>(static_cast<long>(fd)),
                                           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
      map(imports_[i]);
      close(fd);
      close(pidfd);
    }
  }

  const int rank_;
  const Size size_;
  std::vector<Mapped> own_, imports_;
  void* host_ = nullptr;
  CUstream stream_ = nullptr;
};

/// Of the slowest process in each cycle, without the first one.
double median_ms(const Size& size, std::initializer_list<Phase> phases) {
  std::vector<double> values;
  for (int cycle = 1; cycle < size.cycles; ++cycle) {
    double slowest = 0;
    for (int rank = 0; rank < size.gpus; ++rank) {
      double sum = 0;
      for (Phase phase : phases) sum += g_shared->ms[cycle][rank][phase];
      slowest = std::max(slowest, sum);
    }
    values.push_back(slowest);
  }
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) return 2;
  const Size size{atoi(argv[1]),
                  atoi(argv[2]),
                  atoi(argv[4]),
                  argc > 6 ? atoi(argv[6]) : 8,
                  (static_cast<size_t>(atoi(argv[3])) << 20) / atoi(argv[2]) >> 21 << 21,
                  static_cast<size_t>(atoi(argv[5])) << 20};
  if (size.gpus > kMaxGpus || size.own > kMaxObjects || size.cycles > kMaxCycles) return 2;
  void* memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  g_shared = static_cast<Shared*>(memory);
  pthread_barrierattr_t attributes;
  pthread_barrierattr_init(&attributes);
  pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(&g_shared->barrier, &attributes, size.gpus);
  for (int rank = 0; rank < size.gpus; ++rank) {
    if (fork() != 0) continue;
    Rank process(rank, size);
    for (int cycle = 0; cycle < size.cycles; ++cycle) process.run_cycle(cycle);
    _exit(0);
  }
  bool works = true;
  for (int status = 0; wait(&status) > 0;) works = works && status == 0;
  if (!works) return 1;
  for (int phase = 0; phase < kPhases; ++phase)
    printf("%s %.1f  ", kNames[phase], median_ms(size, {static_cast<Phase>(phase)}));
  printf("\npause %.1f ms, resume %.1f ms\n", median_ms(size, {kUnmapImports, kCopyOut, kRelease}),
         median_ms(size, {kCreate, kCopyIn, kImport}));
}
