// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Copies of memory that was partly never written: the simulator does not give it pages, and nobody
// may see that.
#include <algorithm>
#include <vector>

#include "tests/contract/gpu_test.h"

namespace amem::contract {
namespace {

constexpr size_t kPages = 512;
constexpr size_t kPageBytes = 4096;
constexpr size_t kBytes = kPages * kPageBytes;

/// Pages 3 and 7 are full of a byte, all others zero.
std::vector<char> two_pages_of(char value) {
  std::vector<char> bytes(kBytes, 0);
  for (const size_t page : {3, 7})
    std::fill_n(bytes.begin() + static_cast<ptrdiff_t>(page * kPageBytes), kPageBytes, value);
  return bytes;
}

class UntouchedMemory : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    ASSERT_EQ(0u, granularity() % kBytes) << "what is written here is a part of an allocation";
    memory_ = allocate(granularity());
  }
  void TearDown() override {
    free(memory_, granularity());
    GpuTest::TearDown();
  }
  void write(CuDevicePtr to, const std::vector<char>& bytes) {
    ASSERT_EQ(kSuccess, driver().cuMemcpyHtoD(to, bytes.data(), bytes.size()));
  }
  static std::vector<char> read(CuDevicePtr from) {
    std::vector<char> bytes(kBytes, 'u');
    EXPECT_EQ(kSuccess, driver().cuMemcpyDtoH(bytes.data(), from, bytes.size()));
    return bytes;
  }

  CuDevicePtr memory_ = 0;
};

TEST_F(UntouchedMemory, ReadsZeroBesideWhatWasWritten) {
  const std::vector<char> two = two_pages_of('a');
  write(memory_ + 3 * kPageBytes, {two.begin() + 3 * kPageBytes, two.begin() + 4 * kPageBytes});
  write(memory_ + 7 * kPageBytes, {two.begin() + 7 * kPageBytes, two.begin() + 8 * kPageBytes});
  EXPECT_EQ(two, read(memory_));
}

TEST_F(UntouchedMemory, TakesZerosOverWhatWasWritten) {
  write(memory_, std::vector<char>(kBytes, 'a'));
  write(memory_, two_pages_of('b'));
  EXPECT_EQ(two_pages_of('b'), read(memory_));

  ASSERT_EQ(kSuccess, driver().cuMemsetD8(memory_, 0, kBytes));
  EXPECT_EQ(std::vector<char>(kBytes, 0), read(memory_));
}

TEST_F(UntouchedMemory, IsCopiedOnTheDevice) {
  const CuDevicePtr other = allocate(granularity());
  write(memory_, two_pages_of('a'));
  write(other, std::vector<char>(kBytes, 'b'));
  ASSERT_EQ(kSuccess, driver().cuMemcpyDtoD(other, memory_, kBytes));
  EXPECT_EQ(two_pages_of('a'), read(other));
  free(other, granularity());
}

}  // namespace
}  // namespace amem::contract
