// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "tests/contract/gpu_test.h"

#include <poll.h>

#include <algorithm>

namespace amem::contract {

bool eventually(const std::function<bool()>& holds) {
  const auto deadline = std::chrono::steady_clock::now() + kDeadline;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    poll(nullptr, 0, 1);  // a figure of another process cannot be waited for
  }
  return true;
}

bool stays_false(const std::function<bool()>& happens) {
  constexpr std::chrono::milliseconds kMoment{50};
  const auto until = std::chrono::steady_clock::now() + kMoment;
  while (std::chrono::steady_clock::now() < until) {
    if (happens()) return false;
    poll(nullptr, 0, 1);
  }
  return true;
}

void GpuTest::SetUp() {
  ASSERT_EQ(kSuccess, driver().cuInit(0));
  ASSERT_EQ(kSuccess, driver().cuDevicePrimaryCtxRetain(&context_, 0));
  ASSERT_EQ(kSuccess, driver().cuCtxSetCurrent(context_));
  const CuAllocationProp wanted = properties();
  ASSERT_EQ(kSuccess, driver().cuMemGetAllocationGranularity(&granularity_bytes_, &wanted,
                                                             kGranularityMinimum));
}

// The primary context stays: making it again costs a second on a real GPU.
void GpuTest::TearDown() { EXPECT_EQ(kSuccess, driver().cuCtxSynchronize()); }

size_t GpuTest::free_bytes() {
  size_t free = 0;
  size_t total = 0;
  EXPECT_EQ(kSuccess, driver().cuMemGetInfo(&free, &total));
  return free;
}

bool GpuTest::free_is(size_t expected_bytes) {
  const size_t now = free_bytes();
  return now + kSlackBytes > expected_bytes && now < expected_bytes + kSlackBytes;
}

CuAllocationProp GpuTest::properties() {
  CuAllocationProp wanted = {};
  wanted.type = kAllocationPinned;
  wanted.requested_handle_types = kHandleTypePosixFd;
  wanted.location = {kLocationDevice, 0};
  return wanted;
}

CuAccessDesc GpuTest::read_write(int device) {
  return {{kLocationDevice, device}, kAccessReadWrite};
}

CuMemHandle GpuTest::create(size_t size_bytes) {
  CuMemHandle handle = 0;
  const CuAllocationProp wanted = properties();
  EXPECT_EQ(kSuccess, driver().cuMemCreate(&handle, size_bytes, &wanted, 0));
  return handle;
}

CuDevicePtr GpuTest::reserve(size_t size_bytes) {
  CuDevicePtr address = 0;
  EXPECT_EQ(kSuccess, driver().cuMemAddressReserve(&address, size_bytes, 0, 0, 0));
  return address;
}

void GpuTest::map(CuDevicePtr address, size_t size_bytes, CuMemHandle handle) {
  const CuAccessDesc access = read_write();
  ASSERT_EQ(kSuccess, driver().cuMemMap(address, size_bytes, 0, handle, 0));
  ASSERT_EQ(kSuccess, driver().cuMemSetAccess(address, size_bytes, &access, 1));
}

CuDevicePtr GpuTest::allocate(size_t size_bytes) {
  const CuMemHandle handle = create(size_bytes);
  const CuDevicePtr address = reserve(size_bytes);
  map(address, size_bytes, handle);
  EXPECT_EQ(kSuccess, driver().cuMemRelease(handle));
  return address;
}

void GpuTest::free(CuDevicePtr address, size_t size_bytes) {
  EXPECT_EQ(kSuccess, driver().cuMemUnmap(address, size_bytes));
  EXPECT_EQ(kSuccess, driver().cuMemAddressFree(address, size_bytes));
}

void GpuTest::fill(CuDevicePtr address, uint32_t value, size_t size_bytes) {
  EXPECT_EQ(kSuccess, driver().cuMemsetD32(address, value, size_bytes / sizeof(value)));
  EXPECT_EQ(kSuccess, driver().cuCtxSynchronize());
}

bool GpuTest::filled(CuDevicePtr address, uint32_t value, size_t size_bytes) {
  constexpr size_t kWords = 256;
  const size_t piece_bytes = kWords * sizeof(uint32_t);
  for (const size_t offset : {size_t{0}, size_bytes / 2, size_bytes - piece_bytes}) {
    std::vector<uint32_t> words(kWords, ~value);
    const CuResult copied = driver().cuMemcpyDtoH(words.data(), address + offset, piece_bytes);
    if (copied != kSuccess) return false;
    if (!std::all_of(words.begin(), words.end(), [value](uint32_t word) { return word == value; }))
      return false;
  }
  return true;
}

}  // namespace amem::contract
