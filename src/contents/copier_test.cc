// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "contents/copier.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

namespace amem {
namespace {

/// The host's memory as a kernel sees it.
constexpr DeviceAddress kSeenFurther = 0x1'0000'0000;

/// What the fake driver was asked for, and how it answers.
struct {
  std::string failing;             ///< a function
  size_t launches_before_failing;  ///< of cuLaunchKernel, that still succeed
  std::vector<unsigned> launched;  ///< copies of each launch
  std::vector<size_t> copied;      ///< bytes of each copy
  bool to_host;
  ExitFlag* exits_at_look_up;
} g_gpu;

DriverResult answer(const char* function) {
  return g_gpu.failing == function ? driver_result::kUnknown : driver_result::kSuccess;
}

unsigned char* memory_at(DeviceAddress address) {
  return reinterpret_cast<unsigned char*>(address);
}

/// A device whose addresses are those of the test's own memory.
Driver fake_driver() {
  Driver driver;
  driver.cuGetErrorName = [](DriverResult, const char** name) {
    *name = "CUDA_ERROR_UNKNOWN";
    return driver_result::kSuccess;
  };
  driver.cuStreamCreate = [](DriverStream* stream, unsigned) {
    *stream = reinterpret_cast<DriverStream>(&g_gpu);
    return driver_result::kSuccess;
  };
  driver.cuEventCreate = [](DriverEvent* event, unsigned) {
    *event = reinterpret_cast<DriverEvent>(&g_gpu);
    return driver_result::kSuccess;
  };
  driver.cuEventRecord = [](DriverEvent, DriverStream) { return driver_result::kSuccess; };
  driver.cuModuleLoadData = [](DriverModule*, const void*) { return answer("cuModuleLoadData"); };
  driver.cuModuleGetFunction = [](DriverKernel* kernel, DriverModule, const char*) {
    *kernel = reinterpret_cast<DriverKernel>(&g_gpu);
    return driver_result::kSuccess;
  };
  driver.cuMemHostGetDevicePointer_v2 = [](DeviceAddress* address, void* host, unsigned) {
    if (g_gpu.exits_at_look_up != nullptr) g_gpu.exits_at_look_up->raise();
    *address = reinterpret_cast<DeviceAddress>(host) + kSeenFurther;
    return answer("cuMemHostGetDevicePointer");
  };
  driver.cuLaunchKernel = [](DriverKernel, unsigned blocks, unsigned, unsigned, unsigned, unsigned,
                             unsigned, unsigned, DriverStream, void** parameters, void**) {
    if (g_gpu.launched.size() >= g_gpu.launches_before_failing) {
      const DriverResult result = answer("cuLaunchKernel");
      if (result != driver_result::kSuccess) return result;
    }
    g_gpu.launched.push_back(blocks);
    const auto& list = *static_cast<const SmallCopyList*>(parameters[0]);
    for (unsigned i = 0; i < blocks; ++i) {
      const auto [from, to] = list.entries[i];
      memcpy(memory_at(g_gpu.to_host ? to - kSeenFurther : to),
             memory_at(g_gpu.to_host ? from : from - kSeenFurther), kSmallCopyBytes);
    }
    return driver_result::kSuccess;
  };
  driver.cuMemcpyDtoHAsync_v2 = [](void* to, DeviceAddress from, size_t bytes, DriverStream) {
    g_gpu.copied.push_back(bytes);
    memcpy(to, memory_at(from), bytes);
    return answer("cuMemcpyDtoHAsync");
  };
  driver.cuMemcpyHtoDAsync_v2 = [](DeviceAddress to, const void* from, size_t bytes, DriverStream) {
    g_gpu.copied.push_back(bytes);
    memcpy(memory_at(to), from, bytes);
    return answer("cuMemcpyHtoDAsync");
  };
  return driver;
}

/// In both directions.
class CopierTest : public testing::TestWithParam<CopyDirection> {
 protected:
  static constexpr size_t kSlot = 3 * kSmallCopyBytes;
  static constexpr size_t kSlots = 300;
  static constexpr size_t kLarge = Copier::kLargestByKernel + kSmallCopyBytes;

  CopierTest() : backing_(kSlots * kSlot), on_host_(kSlots * kSlot) {
    g_gpu = {};
    g_gpu.to_host = GetParam() == CopyDirection::to_host;
    unsigned random = 1;
    for (unsigned char& byte : g_gpu.to_host ? backing_ : on_host_)
      byte = static_cast<unsigned char>((random = random * 1664525u + 1013904223u) >> 24);
  }

  /// Pieces at the beginning of that many slots.
  static std::vector<Piece> small(size_t count) {
    std::vector<Piece> pieces;
    for (size_t i = 0; i < count; ++i) pieces.push_back({i * kSlot, kSmallCopyBytes});
    return pieces;
  }
  /// The host block is one extent that begins there.
  Status queue(Copier& copier, std::vector<Piece> pieces, bool kernel_can_go = true,
               size_t host_offset_bytes = 0) {
    Transfer transfer;
    transfer.address = reinterpret_cast<DeviceAddress>(backing_.data());
    transfer.size_bytes = total_bytes(pieces);
    transfer.pieces = std::move(pieces);
    transfer.on_host = std::make_shared<const std::vector<HostExtent>>(
        1, HostExtent{on_host_.data() + host_offset_bytes, on_host_.size()});
    transfer.kernel_can_go = kernel_can_go;
    return copier.queue(transfer, GetParam());
  }
  Status queue(std::vector<Piece> pieces, bool kernel_can_go = true, size_t host_offset_bytes = 0) {
    return queue(copier_, std::move(pieces), kernel_can_go, host_offset_bytes);
  }
  /// On the host one piece lies behind the other.
  void expect_copied(const std::vector<Piece>& pieces, size_t host_offset_bytes = 0) {
    for (const Piece& piece : pieces) {
      ASSERT_EQ(
          memcmp(&backing_[piece.offset_bytes], &on_host_[host_offset_bytes], piece.size_bytes), 0)
          << "of the piece at " << piece.offset_bytes;
      host_offset_bytes += piece.size_bytes;
    }
  }
  const char* copy_call() const {
    return g_gpu.to_host ? "cuMemcpyDtoHAsync" : "cuMemcpyHtoDAsync";
  }

  std::vector<unsigned char> backing_, on_host_;
  const Driver driver_ = fake_driver();
  ExitFlag exiting_;
  Copier copier_{driver_, 0, exiting_};
};

TEST_P(CopierTest, SmallPiecesGoTogetherAndOthersByThemselves) {
  std::vector<Piece> pieces = small(40);
  pieces[7].size_bytes = 2 * kSmallCopyBytes;
  pieces[30].size_bytes = kSmallCopyBytes / 2;
  pieces.push_back({50 * kSlot, kLarge});

  ASSERT_TRUE(queue(pieces).ok());

  expect_copied(pieces);
  EXPECT_EQ(g_gpu.launched, std::vector<unsigned>{40});
  EXPECT_EQ(g_gpu.copied, (std::vector<size_t>{kSmallCopyBytes / 2, kLarge}));
}

TEST_P(CopierTest, MoreThanAListHoldsTakeSeveralLaunches) {
  ASSERT_TRUE(queue(small(kSlots)).ok());

  expect_copied(small(kSlots));
  EXPECT_EQ(g_gpu.launched, (std::vector<unsigned>{255, 45}));
}

TEST_P(CopierTest, NoKernelGoesWhereItCannot) {
  ASSERT_TRUE(queue(small(5), false).ok());

  expect_copied(small(5));
  EXPECT_TRUE(g_gpu.launched.empty());
  EXPECT_EQ(g_gpu.copied, std::vector<size_t>(5, kSmallCopyBytes));
}

TEST_P(CopierTest, WhatIsNotAlignedIsCopiedByTheDriver) {
  ASSERT_TRUE(queue(small(2), true, 8).ok());
  expect_copied(small(2), 8);
  EXPECT_TRUE(g_gpu.launched.empty());

  // A short piece before it moves the next one on the host.
  const std::vector<Piece> pieces{{0, kSmallCopyBytes},
                                  {kSlot, 24},
                                  {2 * kSlot, kSmallCopyBytes},
                                  {3 * kSlot + 8, kSmallCopyBytes}};
  ASSERT_TRUE(queue(pieces).ok());
  expect_copied(pieces);
  EXPECT_EQ(g_gpu.launched, std::vector<unsigned>{1});
}

TEST_P(CopierTest, SmallPiecesAreCopiedOneByOneWhereTheKernelFails) {
  for (const char* function : {"cuModuleLoadData", "cuMemHostGetDevicePointer", "cuLaunchKernel"}) {
    g_gpu.failing = function;
    g_gpu.copied.clear();
    for (unsigned char& byte : g_gpu.to_host ? on_host_ : backing_) byte = 0;
    Copier fresh(driver_, 0, exiting_);
    ASSERT_TRUE(queue(fresh, small(5)).ok()) << function;
    expect_copied(small(5));
    EXPECT_EQ(g_gpu.copied, std::vector<size_t>(5, kSmallCopyBytes)) << function;
  }
}

TEST_P(CopierTest, LaunchThatFailsLaterLeavesTheRestToTheDriver) {
  g_gpu.failing = "cuLaunchKernel";
  g_gpu.launches_before_failing = 1;

  ASSERT_TRUE(queue(small(kSlots)).ok());

  expect_copied(small(kSlots));
  EXPECT_EQ(g_gpu.launched, std::vector<unsigned>{255});
  EXPECT_EQ(g_gpu.copied.size(), 45u);
}

TEST_P(CopierTest, CopyThatFailsIsAnError) {
  g_gpu.failing = copy_call();

  const Status status = queue({{0, kLarge}});

  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::driver);
  EXPECT_NE(status.error().message.find(std::string(copy_call()) + "(69632 bytes)"),
            std::string::npos)
      << status.error().message;
}

TEST_P(CopierTest, DriverIsNotCalledOnceExitHasBegun) {
  g_gpu.exits_at_look_up = &exiting_;

  EXPECT_FALSE(queue(small(1)).ok());
  EXPECT_FALSE(queue({{0, kSmallCopyBytes}, {kSlot, kLarge}}).ok());

  EXPECT_TRUE(g_gpu.launched.empty());
  EXPECT_TRUE(g_gpu.copied.empty());
}

TEST(CopyRanges, FollowPiecesAndExtents) {
  unsigned char host[100];
  const std::vector<HostExtent> block{{host, 10}, {host + 50, 4}, {host + 70, 30}};

  const std::vector<CopyRange> ranges = copy_ranges({{1000, 6}, {2000, 12}, {3000, 2}}, block);

  std::vector<std::vector<size_t>> found;
  for (const CopyRange& range : ranges)
    found.push_back({range.offset_bytes, static_cast<size_t>(range.on_host.base - host),
                     range.on_host.size_bytes});
  EXPECT_EQ(found, (std::vector<std::vector<size_t>>{
                       {1000, 0, 6}, {2000, 6, 4}, {2004, 50, 4}, {2008, 70, 4}, {3000, 74, 2}}));
  EXPECT_TRUE(copy_ranges({}, {}).empty());
}

INSTANTIATE_TEST_SUITE_P(Both, CopierTest,
                         testing::Values(CopyDirection::to_host, CopyDirection::to_device),
                         [](const auto& test) {
                           return test.param == CopyDirection::to_host ? "to_host" : "to_device";
                         });

}  // namespace
}  // namespace amem
