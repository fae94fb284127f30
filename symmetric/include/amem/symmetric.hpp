// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// Symmetric memory in C++: buffers and handles that free themselves, and exceptions. All functions
// are those of amem/symmetric.h, which has their meaning. Link -lamem_symmetric
// -lamem_nccl.
//
//   amem::symmetric::TcpGroup group("node0:29600", rank, world_size);  // amem/groups.hpp
//   amem::symmetric::Buffer buffer = amem::symmetric::empty(bytes);
//   amem::symmetric::Handle handle = amem::symmetric::rendezvous(buffer, group);
//   handle.all_reduce(buffer.data(), 0, count, amemBfloat16, amemAllReduceAuto, stream);
#ifndef AMEM_SYMMETRIC_HPP_
#define AMEM_SYMMETRIC_HPP_

#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

#include "amem.h"
#include "amem/memory.hpp"
#include "amem/symmetric.h"

namespace amem::symmetric {

using memory::check;
using memory::Error;

/// The ranks that meet. Not thread-safe.
class Group {
 public:
  virtual ~Group() = default;
  virtual int rank() const = 0;
  virtual int world_size() const = 0;
  /// Gathers `size_bytes` bytes of each rank in `all`, in the order of ranks. Throws
  /// std::exception if a rank is missing.
  virtual void all_gather(const void* mine, size_t size_bytes, void* all) = 0;
};

/// Memory of amemSymmetricMalloc().
class Buffer {
 public:
  /// On the device of the current CUDA context.
  explicit Buffer(size_t size_bytes) : size_bytes_(size_bytes) {
    check(amemSymmetricMalloc(&pointer_, size_bytes));
  }
  ~Buffer() { (void)amemSymmetricFree(pointer_); }
  Buffer(Buffer&& other) noexcept
      : pointer_(std::exchange(other.pointer_, nullptr)),
        size_bytes_(std::exchange(other.size_bytes_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(pointer_, other.pointer_);
    std::swap(size_bytes_, other.size_bytes_);
    return *this;
  }

  void* data() const { return pointer_; }
  size_t size_bytes() const { return size_bytes_; }

 private:
  void* pointer_ = nullptr;
  size_t size_bytes_;
};

inline Buffer empty(size_t size_bytes) { return Buffer(size_bytes); }

/// Elements of a buffer of any rank, in row-major order.
template <typename T, size_t kDimensions>
struct Tensor {
  T* data;
  std::array<size_t, kDimensions> shape;

  size_t count() const {
    size_t product = 1;
    for (const size_t extent : shape) product *= extent;
    return product;
  }
};

/// Of amemSymmetricRendezvous(). The buffer must outlive it. After a move, the functions of the old
/// object throw.
class Handle {
 public:
  Handle(const Buffer& buffer, Group& group) {
    std::string failure;
    Context context{&group, &failure};
    const amemGroup_t ranks{group.rank(), group.world_size(), &all_gather_of, &context};
    const int result = amemSymmetricRendezvous(&handle_, buffer.data(), &ranks);
    if (result != 0) throw Error(result, failure.empty() ? amemGetLastError() : failure);
    check(amemSymmetricGetInfo(handle_, &info_));
  }
  ~Handle() { (void)amemSymmetricDestroy(handle_); }
  Handle(Handle&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)), info_(std::exchange(other.info_, {})) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(info_, other.info_);
    return *this;
  }

  amemSymmetric_t get() const { return handle_; }
  const amemSymmetricInfo_t& info() const { return info_; }
  int rank() const { return info_.rank; }
  int world_size() const { return info_.world_size; }
  /// For kernels (amem/symmetric.cuh).
  amemSymmetricView_t view() const {
    amemSymmetricView_t view;
    check(amemSymmetricGetView(handle_, &view));
    return view;
  }

  /// The elements of this shape, from element `offset` on, in the buffer of `rank`. Throws
  /// std::out_of_range if they are not inside the buffer.
  template <typename T, size_t kDimensions>
  Tensor<T, kDimensions> get_buffer(int rank, const std::array<size_t, kDimensions>& shape,
                                    size_t offset = 0) const {
    return {
        static_cast<T*>(part(info_.buffers, rank, info_.buffer_bytes, shape, offset, sizeof(T))),
        shape};
  }
  template <size_t kDimensions>
  Tensor<uint32_t, kDimensions> get_signal_pad(int rank,
                                               const std::array<size_t, kDimensions>& shape,
                                               size_t offset = 0) const {
    return {static_cast<uint32_t*>(part(info_.signal_pads, rank, info_.signal_pad_bytes, shape,
                                        offset, sizeof(uint32_t))),
            shape};
  }

  void barrier(int channel, amemStream_t stream, uint64_t timeout_ms = 0) const {
    check(amemSymmetricBarrier(handle_, channel, stream, timeout_ms));
  }
  void put_signal(int peer, int channel, amemStream_t stream, uint64_t timeout_ms = 0) const {
    check(amemSymmetricPutSignal(handle_, peer, channel, stream, timeout_ms));
  }
  void wait_signal(int peer, int channel, amemStream_t stream, uint64_t timeout_ms = 0) const {
    check(amemSymmetricWaitSignal(handle_, peer, channel, stream, timeout_ms));
  }
  void stream_write_value32(void* address, uint32_t value, amemStream_t stream) const {
    check(amemSymmetricWriteValue32(handle_, address, value, stream));
  }
  void memset32(void* address, uint32_t value, size_t count, amemStream_t stream) const {
    check(amemSymmetricMemset32(handle_, address, value, count, stream));
  }
  void clear_signal_pad(amemStream_t stream) const {
    check(amemSymmetricClearSignalPad(handle_, stream));
  }
  /// Throws if a kernel has not met a peer, or a peer has ended.
  void check_error() const { check(amemSymmetricGetError(handle_)); }

  void all_reduce(void* output, size_t offset_bytes, size_t count, amemDataType_t type,
                  amemAllReduce_t algorithm, amemStream_t stream) const {
    check(amemSymmetricAllReduce(handle_, output, offset_bytes, count, type, algorithm, stream));
  }
  void all_gather(void* output, size_t offset_bytes, size_t size_bytes, amemEngine_t engine,
                  amemStream_t stream) const {
    check(amemSymmetricAllGather(handle_, output, offset_bytes, size_bytes, engine, stream));
  }
  void multimem_all_gather(const void* input, size_t offset_bytes, size_t size_bytes,
                           amemStream_t stream) const {
    check(amemSymmetricMultimemAllGather(handle_, input, offset_bytes, size_bytes, stream));
  }
  void all_to_all(void* output, size_t offset_bytes, size_t size_bytes, amemEngine_t engine,
                  amemStream_t stream) const {
    check(amemSymmetricAllToAll(handle_, output, offset_bytes, size_bytes, engine, stream));
  }
  void reduce_scatter(void* output, size_t offset_bytes, size_t count, amemDataType_t type,
                      amemEngine_t engine, void* scratch, amemStream_t stream) const {
    check(amemSymmetricReduceScatter(handle_, output, offset_bytes, count, type, engine, scratch,
                                     stream));
  }

 private:
  struct Context {
    Group* group;
    std::string* failure;
  };
  /// Exceptions do not cross the C interface.
  static int all_gather_of(void* context, const void* mine, size_t size_bytes, void* all) {
    const auto* const of = static_cast<Context*>(context);
    try {
      of->group->all_gather(mine, size_bytes, all);
      return 0;
    } catch (const std::exception& error) {
      *of->failure = error.what();
      return 1;
    }
  }
  template <typename Pointer, size_t kDimensions>
  void* part(Pointer const* of_ranks, int rank, size_t limit_bytes,
             const std::array<size_t, kDimensions>& shape, size_t offset,
             size_t element_bytes) const {
    if (rank < 0 || rank >= info_.world_size)
      throw std::out_of_range("rank " + std::to_string(rank) + " of " +
                              std::to_string(info_.world_size));
    const size_t limit = limit_bytes / element_bytes;
    size_t count = 1;
    for (const size_t extent : shape)
      count = extent != 0 && count > limit / extent ? limit + 1 : count * extent;
    if (offset > limit || count > limit - offset)
      throw std::out_of_range("the shape at element " + std::to_string(offset) +
                              " has more than the " + std::to_string(limit) +
                              " elements of the buffer");
    return reinterpret_cast<unsigned char*>(of_ranks[rank]) + offset * element_bytes;
  }

  amemSymmetric_t handle_ = nullptr;
  amemSymmetricInfo_t info_{};
};

/// Collective: all ranks of the group call it.
inline Handle rendezvous(const Buffer& buffer, Group& group) { return Handle(buffer, group); }

}  // namespace amem::symmetric

#endif  // AMEM_SYMMETRIC_HPP_
