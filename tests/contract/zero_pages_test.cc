// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// amem's kernel that looks for zero pages: modules, launches, and that it finds exactly those that
// are.
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "tests/contract/kernels_case.h"

namespace amem::contract {
namespace {

constexpr size_t kPageBytes = size_t{64} << 10;

class ZeroPagesKernel : public KernelsCase {
 protected:
  using Pages = std::vector<CuDevicePtr>;

  void SetUp() override {
    KernelsCase::SetUp();
    function_ = function(kZeroPagesKernel);
  }

  CuResult look(CuDevicePtr table, size_t page_count) {
    return launch(function_, page_count, kKernelThreads, &table);
  }

  /// What the kernel leaves in the table, which lies at an offset in the pinned memory.
  Pages after_looking_at(const Pages& pages, size_t offset_bytes = 0) {
    auto* const table = reinterpret_cast<CuDevicePtr*>(host_ + offset_bytes);
    EXPECT_LE(offset_bytes + pages.size() * sizeof *table, kHostBytes);
    std::copy(pages.begin(), pages.end(), table);
    EXPECT_EQ(kSuccess, look(on_device(table), pages.size()));
    EXPECT_EQ(kSuccess, driver().cuStreamSynchronize(other_));
    return {table, table + pages.size()};
  }

  static Pages pages_of(CuDevicePtr address, size_t page_count) {
    Pages pages(page_count);
    for (size_t i = 0; i < page_count; ++i) pages[i] = address + i * kPageBytes;
    return pages;
  }

  static void set_byte(CuDevicePtr address, int value = 1) {
    ASSERT_EQ(kSuccess, driver().cuMemsetD8(address, static_cast<unsigned char>(value), 1));
    ASSERT_EQ(kSuccess, driver().cuCtxSynchronize());  // the kernel's stream does not wait for it
  }

  CuFunction function_ = nullptr;
};

TEST_F(ZeroPagesKernel, ZeroPagesAreFoundAndOthersKeepTheirAddress) {
  Pages expected = pages_of(address_, kBytes / kPageBytes);
  const Pages all = expected;
  EXPECT_EQ(Pages(all.size(), 0), after_looking_at(all));

  for (const size_t page : {size_t{0}, size_t{7}, all.size() - 1}) {
    fill(all[page], 0xa5a5a5a5, kPageBytes);
  }
  for (size_t page = 0; page < all.size(); ++page) {
    if (page != 0 && page != 7 && page != all.size() - 1) expected[page] = 0;
  }
  EXPECT_EQ(expected, after_looking_at(all));

  fill(address_, 0, kBytes);
  EXPECT_EQ(Pages(all.size(), 0), after_looking_at(all));
}

// Each 16 bytes that a thread reads at once, and each byte and bit of them.
TEST_F(ZeroPagesKernel, OneBitAnywhereInAPageIsSeen) {
  constexpr size_t kLoadBytes = 16;
  constexpr size_t kLoads = kPageBytes / kLoadBytes;
  constexpr size_t kPagesAtOnce = 512;
  const size_t size_bytes = kPagesAtOnce * kPageBytes;
  const CuDevicePtr memory = allocate(size_bytes);
  const Pages all = pages_of(memory, kPagesAtOnce);

  for (size_t first = 0; first < kLoads; first += kPagesAtOnce) {
    fill(memory, 0, size_bytes);
    for (size_t i = 0; i < kPagesAtOnce; ++i) {
      const size_t load = first + i;
      set_byte(all[i] + load * kLoadBytes + load % kLoadBytes, 1 << load / kLoadBytes % 8);
    }
    ASSERT_EQ(all, after_looking_at(all)) << "from byte " << first * kLoadBytes;
  }

  free(memory, size_bytes);
}

TEST_F(ZeroPagesKernel, FirstAndLastByteCountAndThoseOfNeighboursDoNot) {
  const Pages all = pages_of(address_, 7);
  set_byte(all[0] + kPageBytes - 1, 0x80);
  set_byte(all[2]);
  set_byte(all[4] + kPageBytes - 1);
  set_byte(all[6], 0x80);

  EXPECT_EQ((Pages{all[0], 0, all[2], 0, all[4], 0, all[6]}), after_looking_at(all));
}

TEST_F(ZeroPagesKernel, PagesMayLieAnywhereInAnyOrder) {
  constexpr size_t kRanges = 24;
  constexpr size_t kPagesEach = 32;
  uint32_t random = 12345;
  const auto next = [&random] { return random = random * 1664525u + 1013904223u; };
  std::vector<std::pair<CuDevicePtr, bool>> known;  // and whether it is zero
  Pages ranges;
  for (size_t range = 0; range < kRanges; ++range) {
    ranges.push_back(allocate(kPagesEach * kPageBytes));
    fill(ranges.back(), 0, kPagesEach * kPageBytes);
    for (const CuDevicePtr page : pages_of(ranges.back(), kPagesEach)) {
      const bool zero = next() >> 16 & 1;
      if (!zero) set_byte(page + next() % kPageBytes, 1 + static_cast<int>(next() >> 16) % 255);
      known.push_back({page, zero});
    }
  }
  for (size_t i = known.size() - 1; i > 0; --i) std::swap(known[i], known[next() % (i + 1)]);

  Pages asked, expected;
  for (const auto& [page, zero] : known) {
    asked.push_back(page);
    expected.push_back(zero ? 0 : page);
  }
  EXPECT_EQ(expected, after_looking_at(asked));

  for (const CuDevicePtr range : ranges) free(range, kPagesEach * kPageBytes);
}

// More blocks than 16 bits can count, as the grid's other two dimensions have.
TEST_F(ZeroPagesKernel, TableMayBeLarge) {
  constexpr size_t kEntries = 70001;
  const Pages some = pages_of(address_, 3);
  set_byte(some[1] + 12345);
  Pages asked(kEntries), expected(kEntries);
  for (size_t i = 0; i < kEntries; ++i) {
    asked[i] = some[i % 3];
    expected[i] = i % 3 == 1 ? some[1] : 0;
  }

  EXPECT_EQ(expected, after_looking_at(asked));
}

// A block of the host pool begins inside of what was registered.
TEST_F(ZeroPagesKernel, TableMayLieInsideOfRegisteredMemory) {
  const Pages all = pages_of(address_, 5);
  set_byte(all[3] + 1);

  for (const size_t offset_bytes : {size_t{256}, kMb + 512, kHostBytes - 5 * sizeof all[0]}) {
    EXPECT_EQ((Pages{0, 0, 0, all[3], 0}), after_looking_at(all, offset_bytes)) << offset_bytes;
  }
}

TEST_F(ZeroPagesKernel, WorkOfTheStreamThatCameBeforeIsSeen) {
  const Pages all = pages_of(address_, kBytes / kPageBytes);
  for (const unsigned value : {1u, 0u, 255u << 24, 0u}) {
    ASSERT_EQ(kSuccess, driver().cuMemsetD32Async(address_, value, kWords, other_));
    EXPECT_EQ(value == 0 ? Pages(all.size(), 0) : all, after_looking_at(all)) << value;
  }
}

// A pause may come while the application captures work of its own.
TEST_F(ZeroPagesKernel, LoadingAndLaunchingInARelaxedThreadLeavesACaptureAlone) {
  CuModule loaded_meanwhile = nullptr;
  begin(kCaptureGlobal);
  in_thread(kCaptureRelaxed, [&] {
    ASSERT_EQ(kSuccess, driver().cuModuleLoadData(&loaded_meanwhile, kKernelsPtx));
    ASSERT_EQ(kSuccess,
              driver().cuModuleGetFunction(&function_, loaded_meanwhile, kZeroPagesKernel));
    const Pages all = pages_of(address_, 4);
    EXPECT_EQ(Pages(all.size(), 0), after_looking_at(all));
  });
  end_well();
  EXPECT_EQ(kSuccess, driver().cuModuleUnload(loaded_meanwhile));
}

TEST_F(ZeroPagesKernel, WhatIsNoKernelIsRefused) {
  CuModule module = nullptr;
  CuFunction function = nullptr;
  EXPECT_NE(kSuccess, driver().cuModuleLoadData(&module, "this is no image"));
  EXPECT_EQ(kErrorNotFound, driver().cuModuleGetFunction(&function, module_, "no_such_kernel"));
  // An error that leaves the context as it was.
  EXPECT_EQ(kErrorInvalidValue, look(address_, 0));
  EXPECT_EQ(Pages{0}, after_looking_at({address_}));
}

// Most of what NCCL allocates; reading it would make the host give it memory.
using SimulatorZeroPages = ZeroPagesKernel;
TEST_F(SimulatorZeroPages, MemoryThatNobodyWroteGetsNoneOfTheHosts) {
  const auto used_blocks = [] {
    long sum = 0;
    for (const auto& file : std::filesystem::directory_iterator(getenv("AMEM_SIM_DIR"))) {
      struct stat info {};
      if (stat(file.path().c_str(), &info) == 0) sum += info.st_blocks;
    }
    return sum;
  };
  constexpr size_t kPages = 512;
  const CuDevicePtr memory = allocate(kPages * kPageBytes);
  const long before = used_blocks();

  EXPECT_EQ(Pages(kPages, 0), after_looking_at(pages_of(memory, kPages)));
  EXPECT_EQ(before, used_blocks());

  set_byte(memory);
  EXPECT_LT(before, used_blocks()) << "they would have been seen";
  free(memory, kPages * kPageBytes);
}

}  // namespace
}  // namespace amem::contract
