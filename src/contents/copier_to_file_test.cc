// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "contents/copier.h"

namespace amem {
namespace {

constexpr size_t kBufferBytes = 4096;

/// A device that copies when it is waited for, so that a buffer that is used too early is damaged.
struct {
  struct Copy {
    void* to;
    const void* from;
    size_t size_bytes;
  };
  std::vector<Copy> queued;
  size_t waits = 0;
  size_t failing_wait = 0;  ///< counted from 1
  size_t zeroed = 0;
} g_device;

void* at(DeviceAddress address) { return reinterpret_cast<void*>(address); }

DriverResult finish_copies() {
  for (const auto& [to, from, bytes] : g_device.queued) memcpy(to, from, bytes);
  g_device.queued.clear();
  return driver_result::kSuccess;
}

Driver fake_driver() {
  Driver driver;
  driver.cuGetErrorName = [](DriverResult, const char** name) {
    *name = "CUDA_ERROR_UNKNOWN";
    return driver_result::kSuccess;
  };
  driver.cuEventCreate = [](DriverEvent* event, unsigned) {
    *event = reinterpret_cast<DriverEvent>(&g_device);
    return driver_result::kSuccess;
  };
  driver.cuEventRecord = [](DriverEvent, DriverStream) { return driver_result::kSuccess; };
  driver.cuStreamCreate = [](DriverStream* stream, unsigned) {
    *stream = reinterpret_cast<DriverStream>(&g_device);
    return driver_result::kSuccess;
  };
  driver.cuMemsetD8Async = [](DeviceAddress, unsigned char, size_t, DriverStream) {
    ++g_device.zeroed;
    return driver_result::kSuccess;
  };
  driver.cuStreamSynchronize = [](DriverStream) {
    if (++g_device.waits == g_device.failing_wait) return driver_result::kUnknown;
    return finish_copies();
  };
  // What a wait for the whole device calls.
  driver.cuLaunchHostFunc = [](DriverStream, void (*)(void*), void*) {
    return driver_result::kUnknown;
  };
  driver.cuStreamDestroy_v2 = [](DriverStream) { return driver_result::kSuccess; };
  driver.cuMemHostAlloc = [](void** memory, size_t, unsigned) {
    *memory = &g_device;
    return driver_result::kSuccess;
  };
  driver.cuMemFreeHost = [](void*) { return finish_copies(); };
  driver.cuMemcpyDtoHAsync_v2 = [](void* to, DeviceAddress from, size_t bytes, DriverStream) {
    g_device.queued.push_back({to, at(from), bytes});
    return driver_result::kSuccess;
  };
  driver.cuMemcpyHtoDAsync_v2 = [](DeviceAddress to, const void* from, size_t bytes, DriverStream) {
    g_device.queued.push_back({at(to), from, bytes});
    return driver_result::kSuccess;
  };
  return driver;
}

class CopierToFile : public testing::Test {
 protected:
  CopierToFile() : memory_(20 * kBufferBytes), staging_(2 * kBufferBytes) {
    g_device = {};
    unsigned random = 1;
    for (unsigned char& byte : memory_)
      byte = static_cast<unsigned char>((random = random * 1664525u + 1013904223u) >> 24);
    transfer_.address = reinterpret_cast<DeviceAddress>(memory_.data());
    transfer_.size_bytes = memory_.size();
    // Smaller and larger than a buffer, with gaps.
    transfer_.pieces = {{0, 100}, {kBufferBytes, 5 * kBufferBytes + 7}, {8 * kBufferBytes, 3}};
    transfer_.on_host = std::make_shared<const std::vector<HostExtent>>(std::vector<HostExtent>{
        {staging_.data(), 64}, {staging_.data() + 64, staging_.size() - 64}});
    auto file = BackupFile::make(testing::TempDir(), 4096 + total_bytes(transfer_.pieces));
    if (file.ok()) transfer_.in_file = {file.value(), 4096};
  }
  Status copy(CopyDirection direction) {
    return (direction == CopyDirection::to_host ? copier_out_ : copier_in_).queue(transfer_);
  }

  std::vector<unsigned char> memory_, staging_;
  Transfer transfer_;
  const Driver driver_ = fake_driver();
  const ExitFlag exiting_;
  Copier copier_out_{driver_, 0, exiting_, CopyDirection::to_host};
  Copier copier_in_{driver_, 0, exiting_, CopyDirection::to_device};
};

TEST_F(CopierToFile, RestoresThePiecesAndNothingElse) {
  ASSERT_TRUE(copy(CopyDirection::to_host).ok());
  EXPECT_TRUE(g_device.queued.empty());
  std::vector<unsigned char> wanted(memory_.size(), 0xEE);
  for (const Piece& piece : transfer_.pieces)
    std::copy_n(memory_.begin() + static_cast<long>(piece.offset_bytes), piece.size_bytes,
                wanted.begin() + static_cast<long>(piece.offset_bytes));
  std::fill(memory_.begin(), memory_.end(), 0xEE);
  ASSERT_TRUE(copy(CopyDirection::to_device).ok());
  EXPECT_TRUE(g_device.queued.empty());
  EXPECT_EQ(memory_, wanted);
}

// 8 buffers: of a resume that was stopped, one is filled each time, and none twice. The gaps are
// zeroed before the first.
TEST_F(CopierToFile, StoppedTransferGoesOnWhereItEnded) {
  const std::vector<unsigned char> wanted = memory_;
  ASSERT_TRUE(copy(CopyDirection::to_host).ok());
  std::fill(memory_.begin(), memory_.end(), 0xEE);
  const std::atomic<bool> stopped{true};
  size_t calls = 1;
  g_device.waits = 0;
  while (!copier_in_.queue(transfer_, stopped).ok()) {
    EXPECT_EQ(g_device.waits, calls) << "one buffer was filled";
    EXPECT_GT(*transfer_.filled, 0u);
    ASSERT_LT(++calls, 20u);
  }
  EXPECT_EQ(g_device.waits, calls);
  EXPECT_EQ(*transfer_.filled, total_bytes(transfer_.pieces));
  for (const Piece& piece : transfer_.pieces)
    EXPECT_TRUE(
        std::equal(wanted.begin() + static_cast<long>(piece.offset_bytes),
                   wanted.begin() + static_cast<long>(piece.offset_bytes + piece.size_bytes),
                   memory_.begin() + static_cast<long>(piece.offset_bytes)));
  EXPECT_EQ(g_device.zeroed, 1u);
}

TEST_F(CopierToFile, TransferThatIsCompleteIsNotMadeAgain) {
  ASSERT_TRUE(copy(CopyDirection::to_host).ok());
  ASSERT_TRUE(copy(CopyDirection::to_device).ok());
  ASSERT_TRUE(copier_in_.wait_for_all().ok());
  EXPECT_EQ(*transfer_.filled, kAllFilled);
  std::fill(memory_.begin(), memory_.end(), 0xEE);
  ASSERT_TRUE(copy(CopyDirection::to_device).ok());
  EXPECT_EQ(memory_, std::vector<unsigned char>(memory_.size(), 0xEE));
}

TEST_F(CopierToFile, ErrorOfTheDeviceIsReturnedWhenItsBufferIsUnused) {
  ASSERT_TRUE(copy(CopyDirection::to_host).ok());
  for (const CopyDirection direction : {CopyDirection::to_host, CopyDirection::to_device})
    for (const size_t failing : {1, 2, 3}) {
      g_device.waits = 0;
      g_device.failing_wait = failing;
      EXPECT_EQ(copy(direction).error().kind, ErrorKind::driver);
      EXPECT_TRUE(g_device.queued.empty());
    }
  g_device.failing_wait = 0;
  EXPECT_TRUE(copy(CopyDirection::to_device).ok());
}

TEST_F(CopierToFile, ErrorOfTheFileIsReturnedWhenTheBufferIsUnused) {
  transfer_.in_file.offset_bytes += 4096;  // was never written
  EXPECT_EQ(copy(CopyDirection::to_device).error().kind, ErrorKind::os);
  EXPECT_TRUE(g_device.queued.empty());
}

}  // namespace
}  // namespace amem
