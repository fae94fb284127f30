// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Which way of copying many pieces between GPU and host is the fastest, and what memory costs that is created
// meanwhile. Not part of the build, because it needs nvcc and a GPU, for about 10 s:
//
//   nvcc -O2 -std=c++20 -arch=sm_90 -o copy_probe bench/probes/copy_probe.cu -lcuda && ./copy_probe
//
// 1,333 pieces of 64 KiB to 2 MiB, as the contents of 9 communicators are, in 24 objects of 256 MiB.
#include <cuda.h>
#include <cuda_runtime.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr size_t kChunk = 64 << 10, kObjectBytes = 256 << 20, kHostBytes = size_t{1360} << 20;
constexpr int kObjects = 24, kCreated = 20, kPieces = 1360, kBatch = 64, kRounds = 4;

void check(int code, int line = __builtin_LINE()) {
  if (code == 0) return;
  fprintf(stderr, "line %d: error %d\n", line, code);
  exit(1);
}
double now_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Piece {
  unsigned char *on_device, *on_host;
  size_t size_bytes;
};

__global__ void copy_pieces(const Piece* pieces, int count, bool to_host) {
  size_t chunks_before = 0;
  for (int i = 0; i < count; ++i) {
    const size_t chunks = pieces[i].size_bytes / kChunk;
    for (size_t c = (blockIdx.x + gridDim.x - chunks_before % gridDim.x) % gridDim.x; c < chunks; c += gridDim.x) {
      const unsigned char* const from = to_host ? pieces[i].on_device : pieces[i].on_host;
      unsigned char* const to = to_host ? pieces[i].on_host : pieces[i].on_device;
      uint4 loaded[8];
#pragma unroll
      for (int k = 0; k < 8; ++k)
        loaded[k] = __ldcs(reinterpret_cast<const uint4*>(from + c * kChunk) + threadIdx.x + k * 512);
#pragma unroll
      for (int k = 0; k < 8; ++k) __stcs(reinterpret_cast<uint4*>(to + c * kChunk) + threadIdx.x + k * 512, loaded[k]);
    }
    chunks_before += chunks;
  }
}

/// Memory of GPU 0 at an address of its own.
struct Object {
  CUdeviceptr address = 0;
  CUmemGenericAllocationHandle handle = 0;

  void create() {
    if (address == 0) check(cuMemAddressReserve(&address, kObjectBytes, 0, 0, 0));
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    check(cuMemCreate(&handle, kObjectBytes, &properties, 0));
    check(cuMemMap(address, kObjectBytes, 0, handle, 0));
    check(cuMemSetAccess(address, kObjectBytes, &access, 1));
  }
  void release() {
    check(cuMemUnmap(address, kObjectBytes));
    check(cuMemRelease(handle));
  }
};

std::vector<Object> g_objects(kObjects), g_created(kCreated);
std::vector<Piece> g_pieces;
std::vector<CUstream> g_streams(4);

void set_up() {
  check(cudaSetDevice(0));
  check(cudaFree(nullptr));
  for (Object& object : g_objects) object.create();
  auto* const host = static_cast<unsigned char*>(
      mmap(nullptr, kHostBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0));
  check(cuMemHostRegister(host, kHostBytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP));
  std::vector<size_t> used(kObjects);
  uint32_t random = 1;
  for (size_t i = 0, at = 0; i < kPieces; ++i) {
    random = random * 1664525 + 1013904223;
    const size_t bytes = ((random >> 8) % 31 + 1) * kChunk, object = i * kObjects / kPieces;
    if (at + bytes > kHostBytes) break;
    g_pieces.push_back({reinterpret_cast<unsigned char*>(g_objects[object].address) + used[object], host + at, bytes});
    used[object] += bytes + 3 * kChunk;
    at += bytes;
  }
  for (CUstream& stream : g_streams) check(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
}

void copy(CUdeviceptr on_device, unsigned char* on_host, size_t bytes, bool to_host, CUstream stream) {
  check(to_host ? cuMemcpyDtoHAsync(on_host, on_device, bytes, stream)
                : cuMemcpyHtoDAsync(on_device, on_host, bytes, stream));
}

using Way = std::function<void(bool to_host)>;

Way one_by_one(size_t streams) {
  return [streams](bool to_host) {
    for (size_t i = 0; i < g_pieces.size(); ++i)
      copy(reinterpret_cast<CUdeviceptr>(g_pieces[i].on_device), g_pieces[i].on_host, g_pieces[i].size_bytes, to_host,
           g_streams[i % streams]);
  };
}
/// As a resume does: the object's memory is set to zero before its first piece, in the stream of the copies or in another.
Way one_by_one_into_zeroed(bool in_other_stream) {
  return [in_other_stream](bool to_host) {
    const CUstream zeroing = g_streams[in_other_stream ? 1 : 0];
    static CUevent zeroed = [] {
      CUevent event;
      check(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
      return event;
    }();
    CUdeviceptr last = 0;
    for (const Piece& piece : g_pieces) {
      const auto address = reinterpret_cast<CUdeviceptr>(piece.on_device);
      for (const Object& object : g_objects)
        if (!to_host && object.address != last && address - object.address < kObjectBytes) {
          check(cuMemsetD8Async(last = object.address, 0, kObjectBytes, zeroing));
          if (!in_other_stream) continue;
          check(cuEventRecord(zeroed, zeroing));
          check(cuStreamWaitEvent(g_streams[0], zeroed, 0));
        }
      copy(address, piece.on_host, piece.size_bytes, to_host, g_streams[0]);
    }
  };
}
/// The same bytes, one piece of each object.
void in_large_pieces(bool to_host) {
  const size_t bytes = kHostBytes / kObjects / kChunk * kChunk;
  for (size_t i = 0; i < kObjects; ++i)
    copy(g_objects[i].address, g_pieces[0].on_host + i * bytes, bytes, to_host, g_streams[0]);
}
void in_batches(bool to_host) {
  for (size_t first = 0; first < g_pieces.size(); first += kBatch) {
    CUdeviceptr to[kBatch], from[kBatch];
    size_t sizes[kBatch], count = std::min<size_t>(kBatch, g_pieces.size() - first), first_with_attributes = 0;
    for (size_t i = 0; i < count; ++i) {
      const Piece& piece = g_pieces[first + i];
      to[i] = reinterpret_cast<CUdeviceptr>(to_host ? piece.on_host : piece.on_device);
      from[i] = reinterpret_cast<CUdeviceptr>(to_host ? piece.on_device : piece.on_host);
      sizes[i] = piece.size_bytes;
    }
    CUmemcpyAttributes attributes{};
    attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
#if CUDA_VERSION >= 13000
    check(cuMemcpyBatchAsync(to, from, sizes, count, &attributes, &first_with_attributes, 1, g_streams[0]));
#else
    size_t failed = 0;
    check(cuMemcpyBatchAsync(to, from, sizes, count, &attributes, &first_with_attributes, 1, &failed, g_streams[0]));
#endif
  }
}
Way by_kernel(int blocks) {
  static Piece* table = [] {
    void* on_device = nullptr;
    check(cudaMalloc(&on_device, g_pieces.size() * sizeof(Piece)));
    check(cudaMemcpy(on_device, g_pieces.data(), g_pieces.size() * sizeof(Piece), cudaMemcpyDefault));
    return static_cast<Piece*>(on_device);
  }();
  return [blocks](bool to_host) {
    copy_pieces<<<blocks, 512, 0, g_streams[0]>>>(table, static_cast<int>(g_pieces.size()), to_host);
    check(cudaGetLastError());
  };
}

void synchronize() {
  for (CUstream stream : g_streams) check(cuStreamSynchronize(stream));
}

void measure(const std::string& name, const Way& way, bool to_host) {
  std::vector<double> took(kRounds);
  for (double& ms : took) {
    const double begin = now_ms();
    way(to_host);
    synchronize();
    ms = now_ms() - begin;
  }
  std::sort(took.begin(), took.end());
  if (to_host)
    for (Object& object : g_created) object.create();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const double begin = now_ms();
  double copied = 0;
  std::thread copies([&] {
    check(cudaSetDevice(0));
    way(to_host);
    synchronize();
    copied = now_ms() - begin;
  });
  // A pause releases memory while it copies to the host, a resume creates it while it copies back.
  for (Object& object : g_created) to_host ? object.release() : object.create();
  const double done = now_ms() - begin;
  copies.join();
  if (!to_host)
    for (Object& object : g_created) object.release();
  printf("%-28s %s host: %6.2f ms; with %d objects %s meanwhile: copied %6.2f, %s %6.2f\n", name.c_str(),
         to_host ? "to  " : "from", took[kRounds / 2 - 1], kCreated, to_host ? "released" : "created", copied,
         to_host ? "released" : "created", done);
}

}  // namespace

int main() {
  set_up();
  const std::vector<std::pair<std::string, Way>> ways = {{"a copy of each object", in_large_pieces},
                                                         {"each piece", one_by_one(1)},
                                                         {"each piece, into zeroed", one_by_one_into_zeroed(false)},
                                                         {"the same, 2 streams", one_by_one_into_zeroed(true)},
                                                         {"each piece, 2 streams", one_by_one(2)},
                                                         {"each piece, 4 streams", one_by_one(4)},
                                                         {"batches", in_batches},
                                                         {"kernel, 16 blocks", by_kernel(16)},
                                                         {"kernel, 132 blocks", by_kernel(132)}};
  for (const auto& [name, way] : ways)
    for (const bool to_host : {true, false}) measure(name, way, to_host);
  const double begin = now_ms();
  for (Object& object : g_created) object.create();
  printf("%d objects created alone: %.2f ms\n", kCreated, now_ms() - begin);
  const double then = now_ms();
  for (Object& object : g_created) object.release();
  printf("%d objects released alone: %.2f ms\n", kCreated, now_ms() - then);
}
