// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "amem_nccl_abi.h"
#include "sim/cuda_abi.h"
#include "sim/minccl/rank_process.h"

/// CUDA and NCCL functions for a rank of a test. A failure ends the rank.
namespace amem::minccl {

using namespace amem::sim;

/// The driver's functions as a program would link to them.
struct TestDriver {
  CuResult (*init)(unsigned);
  CuResult (*device_get_count)(int*);
  CuResult (*primary_context_retain)(CuContext*, CuDevice);
  CuResult (*context_set_current)(CuContext);
  CuResult (*context_get_limit)(size_t*, int);
  CuResult (*mem_alloc)(CuDevicePtr*, size_t);
  CuResult (*mem_free)(CuDevicePtr);
  CuResult (*copy_to_device)(CuDevicePtr, const void*, size_t);
  CuResult (*copy_to_host)(void*, CuDevicePtr, size_t);
  CuResult (*stream_create)(CuStream*, unsigned);
  CuResult (*stream_destroy)(CuStream);
  CuResult (*stream_synchronize)(CuStream);
  CuResult (*stream_query)(CuStream);
  CuResult (*begin_capture)(CuStream, int);
  CuResult (*end_capture)(CuStream, CuGraph*);
  CuResult (*graph_instantiate)(CuGraphExec*, CuGraph, unsigned long long);
  CuResult (*graph_launch)(CuGraphExec, CuStream);
  CuResult (*graph_destroy)(CuGraph);
  CuResult (*graph_exec_destroy)(CuGraphExec);
  long long (*used_bytes)(int device);  ///< amemSimUsedBytes
};
const TestDriver& test_driver();

void check_driver(CuResult code, const char* what);
void check_nccl(ncclResult_t result, const char* what);
#define CHECK_DRIVER(call) ::amem::minccl::check_driver(::amem::minccl::test_driver().call, #call)
#define CHECK_NCCL(call) ::amem::minccl::check_nccl(call, #call)

/// Makes the device's primary context current. Device: rank modulo the number of devices, or
/// MINCCL_TEST_DEVICE.
void use_device_of(int rank);
void use_device(int device);

/// A communicator over all ranks of the test.
ncclComm_t make_communicator(RankContext& context);

class TestStream {
 public:
  TestStream() { CHECK_DRIVER(stream_create(&stream_, kStreamNonBlocking)); }
  ~TestStream() { CHECK_DRIVER(stream_destroy(stream_)); }
  TestStream(const TestStream&) = delete;
  CuStream get() const { return stream_; }
  void synchronize() const { CHECK_DRIVER(stream_synchronize(stream_)); }
  /// True when the work in it ended within `timeout_ms`.
  bool ends_within(long timeout_ms) const;

 private:
  CuStream stream_ = nullptr;
};

/// An array in device memory.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t size) : size_(size) {
    CHECK_DRIVER(mem_alloc(&pointer_, bytes()));
    fill(std::vector<T>(size));
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) { fill(values); }
  ~DeviceArray() { CHECK_DRIVER(mem_free(pointer_)); }
  DeviceArray(const DeviceArray&) = delete;

  T* get() const { return reinterpret_cast<T*>(pointer_); }
  size_t size() const { return size_; }
  void fill(const std::vector<T>& values) {
    CHECK_DRIVER(copy_to_device(pointer_, values.data(), values.size() * sizeof(T)));
  }
  std::vector<T> values() const {
    std::vector<T> read(size_);
    CHECK_DRIVER(copy_to_host(read.data(), pointer_, bytes()));
    return read;
  }
  /// Ends the rank unless every byte is as expected.
  void expect(const std::vector<T>& expected, const std::string& what) const {
    std::vector<T> read = values();
    for (size_t i = 0; i < expected.size(); ++i)
      // Every byte, for floats too. NOLINTNEXTLINE(bugprone-suspicious-memory-comparison)
      if (memcmp(&read[i], &expected[i], sizeof(T)) != 0)
        fail_rank("%s: element %zu of %zu is %g instead of %g", what.c_str(), i, size_,
                  static_cast<double>(read[i]), static_cast<double>(expected[i]));
  }

 private:
  size_t bytes() const { return size_ * sizeof(T); }

  size_t size_;
  CuDevicePtr pointer_ = 0;
};

/// Small whole numbers, different on every rank, whose sums are exact in every type.
template <typename T>
std::vector<T> numbers_of(int rank, size_t size) {
  std::vector<T> numbers(size);
  for (size_t i = 0; i < size; ++i) numbers[i] = static_cast<T>((i * 7 + rank * 13) % 31);
  return numbers;
}

/// The sum of numbers_of() over `ranks`.
template <typename T>
std::vector<T> sums_of(int ranks, size_t size) {
  std::vector<T> sums(size);
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<T> numbers = numbers_of<T>(rank, size);
    for (size_t i = 0; i < size; ++i) sums[i] = static_cast<T>(sums[i] + numbers[i]);
  }
  return sums;
}

/// One AllReduce of `size` floats over `ranks` ranks, checked. `rank` is the one in `comm`.
void check_all_reduce(ncclComm_t comm, int rank, int ranks, size_t size, const TestStream& stream);

}  // namespace amem::minccl
