// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Two-shot all-reduces as SymmetricCall launches them. Each rank is a thread of this process, and a
// launch runs the kernel on the host.
#include "symmetric/collectives.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include "symmetric/launch_shapes.h"

namespace amem::symmetric {
namespace {

namespace layout = detail;

constexpr unsigned char kUnused = 0xA5;
constexpr amemDataType_t kTypes[] = {amemFloat32, amemFloat16, amemBfloat16};

/// Memory with unused bytes behind it, aligned as the driver's.
class Memory {
 public:
  explicit Memory(size_t size_bytes) : size_bytes_(size_bytes), vectors_(size_bytes / 16 + 8) {
    memset(vectors_.data(), kUnused, 16 * vectors_.size());
  }
  unsigned char* data() { return reinterpret_cast<unsigned char*>(vectors_.data()); }
  bool ends_unused() {
    return std::all_of(data() + size_bytes_, data() + 16 * vectors_.size(),
                       [](unsigned char byte) { return byte == kUnused; });
  }
  bool operator==(const Memory& other) const {
    return vectors_.size() == other.vectors_.size() &&
           memcmp(vectors_.data(), other.vectors_.data(), 16 * vectors_.size()) == 0;
  }

 private:
  size_t size_bytes_;
  std::vector<Vector> vectors_;
};

size_t bytes_of(amemDataType_t type) { return type == amemFloat32 ? 4 : 2; }

/// Of float32 with many digits, so that the order of a sum matters; else small whole numbers, whose
/// sums each type represents.
float value_of(amemDataType_t type, uint32_t rank, size_t index) {
  const auto mixed = (static_cast<uint32_t>(index) * 16 + rank) * 2654435761u;
  const auto whole = static_cast<float>(mixed >> 20) - 2048;
  return type == amemFloat32 ? whole / 3 : static_cast<float>(mixed >> 28) - 8;
}
float read(amemDataType_t type, const unsigned char* at) {
  float value = 0;
  memcpy(&value, at, sizeof value);
  if (type == amemFloat32) return value;
  uint16_t bits = 0;
  memcpy(&bits, at, sizeof bits);
  if (type == amemFloat16) return static_cast<float>(std::bit_cast<_Float16>(bits));
  return std::bit_cast<float>(uint32_t{bits} << 16);
}
void write(amemDataType_t type, unsigned char* at, float value) {
  if (type == amemFloat32) return (void)memcpy(at, &value, sizeof value);
  const uint16_t bits = type == amemFloat16
                            ? std::bit_cast<uint16_t>(static_cast<_Float16>(value))
                            : static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
  memcpy(at, &bits, sizeof bits);
}

/// The launches of the thread's rank.
thread_local std::vector<Shape> t_launches;

using Function = void (*)(const Block&, const Arguments&);
constexpr Function kFunctions[] = {two_shot_kernel<layout::Float32>,
                                   two_shot_kernel<layout::Float16>,
                                   two_shot_kernel<layout::Bfloat16>};

DriverResult run_on_host(DriverKernel kernel, unsigned blocks, unsigned, unsigned, unsigned threads,
                         unsigned, unsigned, unsigned, DriverStream, void** parameters, void**) {
  t_launches.push_back({blocks, threads});
  const auto& arguments = *static_cast<const Arguments*>(parameters[0]);
  const auto function = *reinterpret_cast<const Function*>(kernel);
  for (unsigned index = 0; index < blocks; ++index) function({index, blocks, threads}, arguments);
  return 0;
}

/// The ranks of a group, with handles that have this much scratch memory.
class Ranks {
 public:
  Ranks(uint32_t count, size_t buffer_bytes, size_t scratch_bytes) {
    driver_.cuLaunchKernel = run_on_host;
    for (int type = 0; type < kElementTypes; ++type)
      kernels_.two_shot[type] =
          reinterpret_cast<DriverKernel>(const_cast<Function*>(&kFunctions[type]));
    const size_t workspace_bytes = layout::scratch_offset(count) + scratch_bytes;
    for (uint32_t rank = 0; rank < count; ++rank) {
      buffers_.emplace_back(buffer_bytes);
      outputs_.emplace_back(buffer_bytes);
      workspaces_.emplace_back(workspace_bytes);
      memset(workspaces_.back().data(), 0, layout::scratch_offset(count));
    }
    for (uint32_t rank = 0; rank < count; ++rank) {
      SymmetricHandle& handle = *handles_.emplace_back(std::make_unique<SymmetricHandle>());
      for (uint32_t of = 0; of < count; ++of) {
        handle.view.buffers[of] = buffers_[of].data();
        handle.view.workspaces[of] = workspaces_[of].data();
      }
      handle.view.report = &report_;
      handle.view.buffer_bytes = buffer_bytes;
      handle.view.rank = rank;
      handle.view.world_size = count;
      handle.buffer = reinterpret_cast<DeviceAddress>(buffers_[rank].data());
      handle.kernels = &kernels_;
      handle.scratch_bytes = scratch_bytes;
      handle.multiprocessors = 5;
    }
  }

  /// All ranks reduce this many bytes from the offset, twice, with nothing between the two. Returns
  /// how many launches each rank has made.
  size_t all_reduce(size_t offset_bytes, size_t size_bytes, amemDataType_t type, bool in_place) {
    std::vector<size_t> launches(handles_.size());
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < handles_.size(); ++rank)
      threads.emplace_back([&, rank] {
        unsigned char* const input = buffers_[rank].data() + offset_bytes;
        unsigned char* const output = in_place ? input : outputs_[rank].data();
        const size_t count = size_bytes / bytes_of(type);
        for (size_t i = 0; i < count; ++i)
          write(type, input + i * bytes_of(type), value_of(type, rank, i));
        const SymmetricCall call{driver_, *handles_[rank], nullptr, 60'000};
        for (int time = 0; time < 2; ++time)
          EXPECT_TRUE(
              call.all_reduce(output, offset_bytes, count, type, amemAllReduceTwoShot).ok());
        for (const Shape& shape : t_launches) EXPECT_LE(shape.blocks, 5u);
        launches[rank] = t_launches.size() / 2;
      });
    for (std::thread& thread : threads) thread.join();
    for (uint32_t rank = 0; rank < handles_.size(); ++rank) {
      check(buffers_[rank].data() + offset_bytes, size_bytes, type);
      if (!in_place) check(outputs_[rank].data(), size_bytes, type);
      EXPECT_EQ(launches[rank], launches[0]);
    }
    return launches[0];
  }
  /// Nothing outside of the memory was written.
  void expect_ends_unused() {
    for (std::vector<Memory>* memories : {&buffers_, &outputs_, &workspaces_})
      for (Memory& memory : *memories) EXPECT_TRUE(memory.ends_unused());
  }
  void fail_all() {
    for (Memory& workspace : workspaces_) workspace.data()[0] = 1;
  }
  Memory& buffer(uint32_t rank) { return buffers_[rank]; }
  const std::vector<Memory>& workspaces() const { return workspaces_; }
  const SymmetricHandle& handle(uint32_t rank) const { return *handles_[rank]; }
  const Driver& driver() const { return driver_; }

 private:
  /// The second all-reduce has summed equal results of the first.
  void check(const unsigned char* found, size_t size_bytes, amemDataType_t type) const {
    int wrong = 0;
    for (size_t i = 0; i < size_bytes / bytes_of(type); ++i) {
      float once = value_of(type, 0, i);
      for (uint32_t rank = 1; rank < handles_.size(); ++rank) once += value_of(type, rank, i);
      float twice = once;
      for (uint32_t rank = 1; rank < handles_.size(); ++rank) twice += once;
      if (read(type, found + i * bytes_of(type)) != twice) ++wrong;
    }
    EXPECT_EQ(wrong, 0) << "elements of " << size_bytes << " bytes, type " << type;
  }

  Driver driver_;
  KernelSet kernels_;
  layout::Report report_{};
  std::vector<Memory> buffers_, outputs_, workspaces_;
  std::vector<std::unique_ptr<SymmetricHandle>> handles_;
};

/// The parameter is the number of ranks.
class TwoShot : public testing::TestWithParam<uint32_t> {};

// One vector, fewer than ranks, odd numbers, and what needs all blocks several times.
TEST_P(TwoShot, HasTheSumsOfAllRanksInTheirOrder) {
  constexpr size_t kBytes = 300'016;
  Ranks ranks(GetParam(), kBytes, scratch_bytes_of(kBytes, GetParam()));
  for (const size_t size_bytes : {size_t{16}, size_t{48}, size_t{4112}, kBytes - 4096, kBytes})
    for (const amemDataType_t type : kTypes)
      for (const bool in_place : {true, false})
        EXPECT_EQ(ranks.all_reduce(kBytes - size_bytes, size_bytes, type, in_place), 1u);
  ranks.expect_ends_unused();
}

TEST_P(TwoShot, IsAsManyLaunchesAsTheScratchMemoryNeeds) {
  constexpr size_t kBytes = 100'016, kPartBytes = 4096;
  const size_t peers = GetParam() - 1, at_once = kPartBytes * GetParam();
  Ranks ranks(GetParam(), kBytes, kPartBytes * peers + 15);
  for (const size_t size_bytes : {at_once, at_once + 16, kBytes})
    for (const bool in_place : {true, false})
      EXPECT_EQ(ranks.all_reduce(16, std::min(size_bytes, kBytes - 16), amemFloat32, in_place),
                peers == 0 ? 1 : (std::min(size_bytes, kBytes - 16) - 1) / at_once + 1);
  ranks.expect_ends_unused();
}

// The peers may have unmapped their memory.
TEST_P(TwoShot, WritesNothingAfterTheHandleHasFailed) {
  constexpr size_t kBytes = 4096;
  Ranks ranks(GetParam(), kBytes, scratch_bytes_of(kBytes, GetParam()));
  ranks.fail_all();
  memset(ranks.buffer(0).data(), 0, kBytes);
  const std::vector<Memory> before = ranks.workspaces();
  const SymmetricCall call{ranks.driver(), ranks.handle(0), nullptr, 60'000};
  EXPECT_TRUE(
      call.all_reduce(ranks.buffer(0).data(), 0, kBytes / 4, amemFloat32, amemAllReduceTwoShot)
          .ok());
  EXPECT_TRUE(ranks.workspaces() == before);
}

INSTANTIATE_TEST_SUITE_P(OfRanks, TwoShot, testing::Values(1, 2, 3, 4, 9),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace amem::symmetric
