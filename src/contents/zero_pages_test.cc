// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "contents/zero_pages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <string>

#include "contents/kernels.h"

namespace amem {
namespace {

constexpr size_t kPage = kSlotBytes;
constexpr DeviceAddress kBacking = 0x7000'0000;

/// "z.z": a zero page, one that is not, a zero page.
std::vector<bool> answers(const std::string& text) {
  std::vector<bool> is_zero;
  for (const char page : text) is_zero.push_back(page == 'z');
  return is_zero;
}

std::vector<Piece> cut(const std::vector<Piece>& pieces, const std::string& text) {
  const std::vector<bool> is_zero = answers(text);
  std::vector<DeviceAddress> pages;
  add_pages(kBacking, pieces, &pages);
  EXPECT_EQ(pages.size(), is_zero.size()) << text;
  auto next = is_zero.cbegin();
  std::vector<Piece> left = without_zero_pages(kBacking, pieces, &next);
  EXPECT_EQ(next, is_zero.cend()) << text;
  return left;
}

TEST(WithoutZeroPages, NothingIsLeftOfZeros) {
  EXPECT_EQ(cut({{0, 4 * kPage}, {9 * kPage, 2 * kPage}}, "zzzzzz"), std::vector<Piece>{});
}

TEST(WithoutZeroPages, AllIsLeftOfWhatIsNotZero) {
  const std::vector<Piece> pieces{{kPage, 3 * kPage}, {9 * kPage, kPage}};
  EXPECT_EQ(cut(pieces, "...."), pieces);
}

TEST(WithoutZeroPages, EndsOfAPieceGoHoweverShort) {
  EXPECT_EQ(cut({{kPage, 4 * kPage}}, "z..z"), (std::vector<Piece>{{2 * kPage, 2 * kPage}}));
}

TEST(WithoutZeroPages, ShortRunInsideIsCopiedAndALongOneIsNot) {
  const std::string run(kMinZeroPages, 'z');
  const size_t pages = 2 + kMinZeroPages;

  EXPECT_EQ(cut({{0, (pages - 1) * kPage}}, "." + run.substr(1) + "."),
            (std::vector<Piece>{{0, (pages - 1) * kPage}}));
  EXPECT_EQ(cut({{0, pages * kPage}}, "." + run + "."),
            (std::vector<Piece>{{0, kPage}, {(pages - 1) * kPage, kPage}}));
}

TEST(WithoutZeroPages, PiecesStayApart) {
  EXPECT_EQ(cut({{0, 2 * kPage}, {3 * kPage, 2 * kPage}}, ".zz."),
            (std::vector<Piece>{{0, kPage}, {4 * kPage, kPage}}));
}

// A header has no page, and neither has what follows the last whole page.
TEST(WithoutZeroPages, WhatIsNoWholePageIsKept) {
  const std::vector<Piece> pieces{{0, 4096}, {kPage, 2 * kPage + 100}, {9 * kPage, 20 * kPage + 1}};
  EXPECT_EQ(cut(pieces, "zz" + std::string(20, 'z')),
            (std::vector<Piece>{{0, 4096}, {3 * kPage, 100}, {29 * kPage, 1}}));
}

TEST(WithoutZeroPages, PieceThatTheKernelCannotReadIsKept) {
  const std::vector<Piece> pieces{{8, 2 * kPage}, {4 * kPage, kPage}};
  EXPECT_EQ(cut(pieces, "z"), (std::vector<Piece>{{8, 2 * kPage}}));
}

/// What the fake driver has, and how it answers.
struct {
  std::set<DeviceAddress> zero;
  std::string failing;  ///< a function
  std::vector<unsigned> grids;
  int loads, synchronized, tables, waits_for_device;
} g_gpu;

/// The host's memory as the GPU sees it.
constexpr DeviceAddress kHostOnDevice = 0x1'0000'0000;
std::array<DeviceAddress, Kernels::kMaxPagesAtOnce> g_table;
char g_module, g_kernel, g_other_kernel, g_small_piece;

DriverResult answer(const char* function) {
  return g_gpu.failing == function ? driver_result::kUnknown : driver_result::kSuccess;
}

Driver fake_driver() {
  Driver driver;
  driver.cuGetErrorName = [](DriverResult, const char** name) {
    *name = "CUDA_ERROR_UNKNOWN";
    return driver_result::kSuccess;
  };
  driver.cuModuleLoadData = [](DriverModule* module, const void* image) {
    EXPECT_EQ(image, static_cast<const void*>(kKernelsPtx));
    ++g_gpu.loads;
    *module = reinterpret_cast<DriverModule>(&g_module);
    return answer("cuModuleLoadData");
  };
  driver.cuModuleUnload = [](DriverModule) { return driver_result::kSuccess; };
  driver.cuModuleGetFunction = [](DriverKernel* kernel, DriverModule, const char* name) {
    const bool wanted = name == std::string_view("amem_zero_pages");
    *kernel = reinterpret_cast<DriverKernel>(wanted ? &g_kernel : &g_other_kernel);
    return answer("cuModuleGetFunction");
  };
  driver.cuMemHostAlloc = [](void** host, size_t size_bytes, unsigned flags) {
    if (size_bytes < sizeof g_table) {  // to wait for the device
      *host = &g_small_piece;
      return driver_result::kSuccess;
    }
    EXPECT_EQ(flags, 3u);  // CU_MEMHOSTALLOC_PORTABLE, _DEVICEMAP
    EXPECT_EQ(size_bytes, g_table.size() * sizeof g_table[0]);
    *host = g_table.data();
    ++g_gpu.tables;
    return answer("cuMemHostAlloc");
  };
  driver.cuStreamCreate = [](DriverStream*, unsigned) { return driver_result::kNotSupported; };
  driver.cuMemFreeHost = [](void*) {
    ++g_gpu.waits_for_device;
    return driver_result::kSuccess;
  };
  driver.cuMemHostGetDevicePointer_v2 = [](DeviceAddress* address, void* host, unsigned) {
    EXPECT_EQ(host, g_table.data());
    *address = kHostOnDevice;
    return answer("cuMemHostGetDevicePointer");
  };
  driver.cuLaunchKernel = [](DriverKernel kernel, unsigned blocks, unsigned, unsigned,
                             unsigned threads, unsigned, unsigned, unsigned, DriverStream,
                             void** parameters, void**) {
    EXPECT_EQ(kernel, reinterpret_cast<DriverKernel>(&g_kernel));
    EXPECT_EQ(threads, kKernelThreads);
    EXPECT_EQ(*static_cast<DeviceAddress*>(parameters[0]), kHostOnDevice);
    g_gpu.grids.push_back(blocks);
    return answer("cuLaunchKernel");
  };
  // As late as it may: the table is ready when the stream has been waited for.
  driver.cuStreamSynchronize = [](DriverStream) {
    ++g_gpu.synchronized;
    for (unsigned i = 0; i < g_gpu.grids.back(); ++i)
      if (g_gpu.zero.contains(g_table[i])) g_table[i] = 0;
    return answer("cuStreamSynchronize");
  };
  return driver;
}

template <typename Base>
class ZeroPagesCase : public Base {
 protected:
  ZeroPagesCase() {
    g_gpu = {};
    for (DeviceAddress page = 1; page <= 10; ++page) {
      pages_.push_back(page * kPage);
      if (page % 3 == 0) g_gpu.zero.insert(page * kPage);
    }
  }
  Status find() {
    is_zero_ = AMEM_TRY(kernels_.find_zero_pages(pages_, nullptr));
    return ok_status();
  }

  const Driver driver_ = fake_driver();
  ExitFlag exiting_;
  Kernels kernels_{driver_, 0, exiting_};
  std::vector<DeviceAddress> pages_;
  std::vector<bool> is_zero_{true, true};
};
using ZeroPagesTest = ZeroPagesCase<testing::Test>;

TEST_F(ZeroPagesTest, AreFoundInOneLaunch) {
  ASSERT_TRUE(find().ok());

  EXPECT_EQ(is_zero_, answers("..z..z..z."));
  EXPECT_EQ(g_gpu.grids, std::vector<unsigned>{10});
}

TEST_F(ZeroPagesTest, MoreThanTheTableHoldsTakeSeveralLaunches) {
  constexpr size_t kMax = Kernels::kMaxPagesAtOnce;
  pages_.resize(2 * kMax + 3, kPage);
  pages_[kMax + 1] = pages_.back() = 3 * kPage;

  ASSERT_TRUE(find().ok());

  EXPECT_EQ(g_gpu.grids, (std::vector<unsigned>{kMax, kMax, 3}));
  ASSERT_EQ(is_zero_.size(), pages_.size());
  for (size_t i = 0; i < pages_.size(); ++i)
    ASSERT_EQ(is_zero_[i], pages_[i] % (3 * kPage) == 0) << i;
  EXPECT_EQ(g_gpu.tables, 1);
}

// Then everything is copied. Once, so that the next pause may find the driver in a better state.
using ZeroPagesWithout = ZeroPagesCase<testing::TestWithParam<const char*>>;
TEST_P(ZeroPagesWithout, AreNotFoundWhichIsNoError) {
  g_gpu.failing = GetParam();
  EXPECT_TRUE(find().ok());
  EXPECT_TRUE(is_zero_.empty());
  EXPECT_EQ(g_gpu.synchronized, 0);

  g_gpu.failing = "";
  EXPECT_TRUE(find().ok());
  EXPECT_EQ(is_zero_, answers("..z..z..z."));
}

INSTANTIATE_TEST_SUITE_P(AllCalls, ZeroPagesWithout,
                         testing::Values("cuModuleLoadData", "cuModuleGetFunction",
                                         "cuMemHostAlloc", "cuMemHostGetDevicePointer",
                                         "cuLaunchKernel"),
                         [](const auto& test) { return std::string(test.param); });

TEST_F(ZeroPagesTest, LaunchThatFailsLaterForgetsWhatWasFound) {
  ASSERT_TRUE(find().ok());
  g_gpu.failing = "cuLaunchKernel";

  EXPECT_TRUE(find().ok());

  EXPECT_TRUE(is_zero_.empty());
}

TEST_F(ZeroPagesTest, WaitThatFailsIsTheErrorOfTheCopies) {
  g_gpu.failing = "cuStreamSynchronize";

  const Status status = find();

  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::driver);
  EXPECT_NE(status.error().message.find("cuStreamSynchronize() after the search for zero pages"),
            std::string::npos)
      << status.error().message;
  // The kernel would read on while NCCL writes, and use the table of the next question.
  EXPECT_EQ(g_gpu.waits_for_device, 1);
}

TEST_F(ZeroPagesTest, DriverIsNotCalledOnceExitHasBegun) {
  exiting_.raise();

  EXPECT_FALSE(find().ok());

  EXPECT_EQ(g_gpu.loads, 0);
  EXPECT_TRUE(g_gpu.grids.empty());
}

}  // namespace
}  // namespace amem
