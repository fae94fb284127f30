// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "jobs/symmetric_check.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <stdexcept>

#include "amem.h"

namespace jobs {

void check_symmetric(int result, const char* call) {
  if (result != 0) throw std::runtime_error(std::string(call) + ": " + amemGetLastError());
}

// --- Elements

double Elements::input(int rank, size_t index) const {
  const auto mixed = index * 7 + static_cast<size_t>(rank) * 13 + salt_;
  const double whole = static_cast<double>(mixed % 17) - 8;
  return thirds_ ? whole / 3 : whole;
}

double Elements::read(const unsigned char* at) const {
  if (type_ == amemFloat32) {
    float value = 0;
    memcpy(&value, at, sizeof value);
    return value;
  }
  uint16_t bits = 0;
  memcpy(&bits, at, sizeof bits);
  if (type_ == amemFloat16) return static_cast<double>(std::bit_cast<_Float16>(bits));
  return std::bit_cast<float>(uint32_t{bits} << 16);
}

// Inputs may be truncated: check_sums() reads back what was written.
void Elements::write(unsigned char* at, double value) const {
  const auto single = static_cast<float>(value);
  if (type_ == amemFloat32) return (void)memcpy(at, &single, sizeof single);
  const auto bits = type_ == amemFloat16
                        ? std::bit_cast<uint16_t>(static_cast<_Float16>(single))
                        : static_cast<uint16_t>(std::bit_cast<uint32_t>(single) >> 16);
  memcpy(at, &bits, sizeof bits);
}

std::vector<unsigned char> Elements::of_rank(int rank, size_t count) const {
  std::vector<unsigned char> bytes(count * element_bytes());
  for (size_t i = 0; i < count; ++i) write(&bytes[i * element_bytes()], input(rank, i));
  return bytes;
}

void Elements::check_sums(const std::vector<unsigned char>& bytes, size_t first, size_t count,
                          int world_size, const std::string& what) const {
  const double unit = type_ == amemFloat32 ? 0x1p-23 : type_ == amemFloat16 ? 0x1p-10 : 0x1p-7;
  for (size_t i = 0; i < count; ++i) {
    double sum = 0, magnitude = 0;
    for (int rank = 0; rank < world_size; ++rank) {
      unsigned char written[4];
      write(written, input(rank, first + i));
      sum += read(written);
      magnitude += std::fabs(read(written));
    }
    const double found = read(&bytes[i * element_bytes()]);
    const double allowed = thirds_ ? unit / 2 * std::fabs(sum) + 0x1p-22 * magnitude : 0;
    if (std::fabs(found - sum) <= allowed) continue;
    throw std::runtime_error(what + ": element " + std::to_string(i) + " is " +
                             std::to_string(found) + ", not " + std::to_string(sum));
  }
}

// --- Collectives

namespace {

/// The input and output of one collective.
class Round {
 public:
  Round(amemSymmetric_t handle, size_t size_bytes, Address stage, Stream stream)
      : handle_(handle), size_bytes_(size_bytes), stage_(stage), stream_(stream) {
    JOB_SYMMETRIC(GetInfo(handle, &info_));
  }

  int all_reduces() {
    int count = 0;
    std::vector<amemAllReduce_t> algorithms{amemAllReduceAuto, amemAllReduceOneShot,
                                            amemAllReduceTwoShot};
    if (info_.multicast != nullptr) algorithms.push_back(amemAllReduceMultimem);
    for (const amemDataType_t type : kTypes)
      for (const auto algorithm : algorithms)
        for (const bool in_place : {false, true}) {
          const bool is_refused =
              in_place && algorithm == amemAllReduceOneShot && size_bytes_ > kSmallBytes;
          if (is_refused) continue;
          all_reduce(type, algorithm, in_place);
          ++count;
        }
    return count;
  }
  int reduce_scatters() {
    for (const amemDataType_t type : kTypes)
      for (const auto engine : {amemKernels, amemCopyEngines}) reduce_scatter(type, engine);
    return 6;
  }
  int gathers() {
    for (const auto engine : {amemKernels, amemCopyEngines})
      for (const bool own_parts : {false, true}) gather(engine, own_parts);
    if (info_.multicast == nullptr) return 4;
    for (const bool in_place : {false, true}) multimem_gather(in_place);
    return 6;
  }

 private:
  static constexpr amemDataType_t kTypes[] = {amemFloat32, amemFloat16, amemBfloat16};
  static constexpr size_t kSmallBytes = 128 << 10;

  /// Whole numbers and thirds in turn.
  Elements next(amemDataType_t type) {
    ++salt_;
    return Elements(type, salt_ % 2 == 0, salt_);
  }
  Address buffer() const { return reinterpret_cast<Address>(info_.buffers[info_.rank]); }
  void* output() const { return reinterpret_cast<void*>(stage_); }
  size_t all_bytes() const { return size_bytes_ * static_cast<size_t>(info_.world_size); }
  /// In the stream: cuMemcpyHtoD() may return before the last bytes have arrived.
  void put_in(const std::vector<unsigned char>& bytes) const {
    JOB_CUDA(to_device_async(buffer(), bytes.data(), bytes.size(), stream_));
    JOB_CUDA(fill8_async(stage_, 0xCD, 2 * all_bytes(), stream_));
  }
  std::vector<unsigned char> result(Address from, size_t size_bytes) const {
    JOB_CUDA(stream_synchronize(stream_));
    JOB_SYMMETRIC(GetError(handle_));
    std::vector<unsigned char> bytes(size_bytes);
    JOB_CUDA(to_host(bytes.data(), from, size_bytes));
    return bytes;
  }
  std::string text(const char* name, int type, int how) const {
    return std::string(name) + " of " + std::to_string(size_bytes_) + " bytes, type " +
           std::to_string(type) + ", variant " + std::to_string(how);
  }

  void all_reduce(amemDataType_t type, amemAllReduce_t algorithm, bool in_place) {
    const Elements elements = next(type);
    const size_t count = size_bytes_ / elements.element_bytes();
    put_in(elements.of_rank(info_.rank, count));
    const Address to = in_place ? buffer() : stage_;
    JOB_SYMMETRIC(
        AllReduce(handle_, reinterpret_cast<void*>(to), 0, count, type, algorithm, stream_));
    elements.check_sums(result(to, size_bytes_), 0, count, info_.world_size,
                        text("all-reduce", type, algorithm * 2 + (in_place ? 1 : 0)));
  }
  void reduce_scatter(amemDataType_t type, amemEngine_t engine) {
    const Elements elements = next(type);
    const size_t count = size_bytes_ / elements.element_bytes();
    put_in(elements.of_rank(info_.rank, count * static_cast<size_t>(info_.world_size)));
    JOB_SYMMETRIC(ReduceScatter(handle_, output(), 0, count, type, engine,
                                reinterpret_cast<void*>(stage_ + all_bytes()), stream_));
    elements.check_sums(result(stage_, size_bytes_), static_cast<size_t>(info_.rank) * count, count,
                        info_.world_size, text("reduce-scatter", type, engine));
  }
  // `own_parts`: all-to-all, in which each rank has a part for each other.
  void gather(amemEngine_t engine, bool own_parts) {
    const Elements elements(amemFloat32, false, ++salt_);
    const size_t count = size_bytes_ / 4, inputs = own_parts ? all_bytes() : size_bytes_;
    put_in(elements.of_rank(info_.rank, inputs / 4));
    if (own_parts)
      JOB_SYMMETRIC(AllToAll(handle_, output(), 0, size_bytes_, engine, stream_));
    else
      JOB_SYMMETRIC(AllGather(handle_, output(), 0, size_bytes_, engine, stream_));
    const std::vector<unsigned char> found = result(stage_, all_bytes());
    for (int rank = 0; rank < info_.world_size; ++rank) {
      const std::vector<unsigned char> its = elements.of_rank(rank, inputs / 4);
      const size_t from = own_parts ? static_cast<size_t>(info_.rank) * count * 4 : 0;
      if (memcmp(&found[static_cast<size_t>(rank) * size_bytes_], &its[from], size_bytes_) != 0)
        throw std::runtime_error(text(own_parts ? "all-to-all" : "all-gather", 0, engine) +
                                 ": wrong bytes of rank " + std::to_string(rank));
    }
  }

  // Into the buffers of all ranks; `in_place`: from this rank's part of the own buffer.
  void multimem_gather(bool in_place) {
    const Elements elements(amemFloat32, false, ++salt_);
    const std::vector<unsigned char> mine = elements.of_rank(info_.rank, size_bytes_ / 4);
    const Address part = buffer() + static_cast<size_t>(info_.rank) * size_bytes_;
    const Address input = in_place ? part : stage_;
    JOB_CUDA(to_device_async(input, mine.data(), mine.size(), stream_));
    JOB_SYMMETRIC(
        MultimemAllGather(handle_, reinterpret_cast<void*>(input), 0, size_bytes_, stream_));
    const std::vector<unsigned char> found = result(buffer(), all_bytes());
    for (int rank = 0; rank < info_.world_size; ++rank)
      if (memcmp(&found[static_cast<size_t>(rank) * size_bytes_],
                 elements.of_rank(rank, size_bytes_ / 4).data(), size_bytes_) != 0)
        throw std::runtime_error(text("multimem all-gather", 0, in_place ? 1 : 0) +
                                 ": wrong bytes of rank " + std::to_string(rank));
  }

  const amemSymmetric_t handle_;
  const size_t size_bytes_;
  const Address stage_;
  const Stream stream_;
  amemSymmetricInfo_t info_{};
  unsigned salt_ = 0;
};

}  // namespace

int check_collectives(amemSymmetric_t handle, size_t size_bytes, Address stage, Stream stream) {
  Round round(handle, size_bytes, stage, stream);
  return round.all_reduces() + round.reduce_scatters() + round.gathers();
}

}  // namespace jobs
