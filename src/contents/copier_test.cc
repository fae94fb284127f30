// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "contents/copier.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

namespace amem {
namespace {

/// What the fake driver was asked for, and how it answers.
struct {
  std::string failing;         ///< a function
  std::vector<size_t> copied;  ///< bytes of each copy
  bool to_host;
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
  driver.cuStreamSynchronize = [](DriverStream) { return driver_result::kSuccess; };
  driver.cuModuleLoadData = [](DriverModule* module, const void*) {
    *module = reinterpret_cast<DriverModule>(&g_gpu);
    return driver_result::kSuccess;
  };
  driver.cuModuleGetFunction = [](DriverKernel* kernel, DriverModule, const char*) {
    *kernel = reinterpret_cast<DriverKernel>(&g_gpu);
    return driver_result::kSuccess;
  };
  driver.cuMemHostAlloc = [](void** host, size_t size_bytes, unsigned) {
    static std::vector<unsigned char> table;
    table.resize(size_bytes);
    *host = table.data();
    return driver_result::kSuccess;
  };
  driver.cuMemHostGetDevicePointer_v2 = [](DeviceAddress* address, void* host, unsigned) {
    *address = reinterpret_cast<DeviceAddress>(host);
    return driver_result::kSuccess;
  };
  driver.cuLaunchKernel = [](DriverKernel, unsigned blocks, unsigned, unsigned, unsigned, unsigned,
                             unsigned, unsigned, DriverStream, void** parameters, void**) {
    auto* const table = *static_cast<DeviceAddress**>(parameters[0]);
    for (unsigned i = 0; i < blocks; ++i) {
      const unsigned char* const page = memory_at(table[i]);
      if (std::all_of(page, page + kSlotBytes, [](unsigned char byte) { return byte == 0; }))
        table[i] = 0;
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
  static constexpr size_t kPage = 4096;
  static constexpr size_t kSlot = 3 * kPage;
  static constexpr size_t kSlots = 300;

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
    for (size_t i = 0; i < count; ++i) pieces.push_back({i * kSlot, kPage});
    return pieces;
  }
  /// The host block is one extent.
  Status queue(std::vector<Piece> pieces) {
    Transfer transfer;
    transfer.address = reinterpret_cast<DeviceAddress>(backing_.data());
    transfer.size_bytes = total_bytes(pieces);
    transfer.pieces = std::move(pieces);
    transfer.on_host = std::make_shared<const std::vector<HostExtent>>(
        1, HostExtent{on_host_.data(), on_host_.size()});
    return copier_.queue(transfer);
  }
  /// On the host one piece lies behind the other.
  void expect_copied(const std::vector<Piece>& pieces) {
    size_t at = 0;
    for (const Piece& piece : pieces) {
      ASSERT_EQ(memcmp(&backing_[piece.offset_bytes], &on_host_[at], piece.size_bytes), 0)
          << "of the piece at " << piece.offset_bytes;
      at += piece.size_bytes;
    }
  }
  const char* copy_call() const {
    return g_gpu.to_host ? "cuMemcpyDtoHAsync" : "cuMemcpyHtoDAsync";
  }

  std::vector<unsigned char> backing_, on_host_;
  const Driver driver_ = fake_driver();
  ExitFlag exiting_;
  Copier copier_{driver_, 0, exiting_, GetParam()};
};

TEST_P(CopierTest, EachPieceIsOneCopy) {
  std::vector<Piece> pieces = small(40);
  pieces[7].size_bytes = 24;
  pieces.push_back({50 * kSlot + 8, 20 * kPage});

  ASSERT_TRUE(queue(pieces).ok());

  expect_copied(pieces);
  EXPECT_EQ(g_gpu.copied.size(), 41u);
  EXPECT_EQ(g_gpu.copied.back(), 20 * kPage);
}

TEST_P(CopierTest, CopyThatFailsIsAnError) {
  g_gpu.failing = copy_call();

  const Status status = queue({{0, 17 * kPage}});

  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::driver);
  EXPECT_NE(status.error().message.find(std::string(copy_call()) + "(69632 bytes)"),
            std::string::npos)
      << status.error().message;
}

TEST_P(CopierTest, DriverIsNotCalledOnceExitHasBegun) {
  exiting_.raise();

  EXPECT_FALSE(queue(small(2)).ok());

  EXPECT_TRUE(g_gpu.copied.empty());
}

// A kernel cannot read some memory of a device. Its pages have no results among those of the rest.
TEST(ZeroPages, OfMemoryThatKernelsCannotReadAreCopied) {
  constexpr size_t kPages = 40;
  struct alignas(kSlotBytes) Page {
    unsigned char bytes[kSlotBytes];
  };
  std::vector<Page> pages(kPages);
  const auto set_used = [&](size_t page) { pages[page].bytes[0] = 1; };
  const auto transfer_of = [&](size_t first, size_t count, bool kernel_can_go) {
    Transfer transfer;
    transfer.address = reinterpret_cast<DeviceAddress>(pages[first].bytes);
    transfer.size_bytes = count * kSlotBytes;
    transfer.pieces = {{0, count * kSlotBytes}};
    transfer.kernel_can_go = kernel_can_go;
    return transfer;
  };
  for (const size_t used : {0, 9, 29, 39}) set_used(used);
  std::vector<Transfer> transfers{transfer_of(0, 10, false), transfer_of(0, 10, true),
                                  transfer_of(10, 10, false), transfer_of(20, 20, true),
                                  transfer_of(30, 10, false)};
  const Driver driver = fake_driver();
  const ExitFlag exiting;
  Copier copier(driver, 0, exiting, CopyDirection::to_host);

  ASSERT_TRUE(copier.leave_out_zero_pages(transfers).ok());

  const std::vector<Piece> whole{{0, 10 * kSlotBytes}};
  EXPECT_EQ(transfers[0].pieces, whole);
  EXPECT_EQ(transfers[1].pieces,
            (std::vector<Piece>{{0, kSlotBytes}, {9 * kSlotBytes, kSlotBytes}}));
  EXPECT_EQ(transfers[2].pieces, whole);
  EXPECT_EQ(transfers[3].pieces,
            (std::vector<Piece>{{9 * kSlotBytes, kSlotBytes}, {19 * kSlotBytes, kSlotBytes}}));
  EXPECT_EQ(transfers[4].pieces, whole);
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
