// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Mappings beside each other: one call for all of them, which is what makes slabs and batches
// cheap.
#include "tests/contract/gpu_test.h"

namespace amem::contract {
namespace {

enum class Reserved { kTogether, kEachForItself };

// A run of adjacent mappings, each of its own memory, without access.
class AdjacentMappings : public GpuTest, public testing::WithParamInterface<Reserved> {
 protected:
  static constexpr size_t kPieces = 5;
  static constexpr size_t kHole = 2;

  void SetUp() override {
    GpuTest::SetUp();
    piece_bytes_ = 2 * granularity();
    run_bytes_ = kPieces * piece_bytes_;
    base_ = reserve(run_bytes_);
    if (GetParam() == Reserved::kEachForItself) {
      ASSERT_NO_FATAL_FAILURE(reserve_each());
    }
    for (size_t i = 0; i < kPieces; ++i) {
      const CuMemHandle handle = create(piece_bytes_);
      ASSERT_EQ(kSuccess, driver().cuMemMap(piece(i), piece_bytes_, 0, handle, 0));
      ASSERT_EQ(kSuccess, driver().cuMemRelease(handle));
    }
  }

  void TearDown() override {
    EXPECT_EQ(kSuccess, driver().cuMemUnmap(base_, run_bytes_)) << "what the test has left of it";
    const size_t reserved_bytes = GetParam() == Reserved::kTogether ? run_bytes_ : piece_bytes_;
    for (size_t offset = 0; offset < run_bytes_; offset += reserved_bytes) {
      EXPECT_EQ(kSuccess, driver().cuMemAddressFree(base_ + offset, reserved_bytes));
    }
    GpuTest::TearDown();
  }

  CuDevicePtr piece(size_t number) const { return base_ + number * piece_bytes_; }

  void unmap_piece(size_t number) {
    ASSERT_EQ(kSuccess, driver().cuMemUnmap(piece(number), piece_bytes_));
  }

  static CuResult grant(CuDevicePtr address, size_t size_bytes) {
    const CuAccessDesc access = read_write();
    return driver().cuMemSetAccess(address, size_bytes, &access, 1);
  }

  static bool mapped(CuDevicePtr address) {
    size_t size_bytes = 0;
    const CuResult known = driver().cuMemGetAddressRange(nullptr, &size_bytes, address);
    EXPECT_TRUE(known == kSuccess || known == kErrorNotFound) << known;
    return known == kSuccess;
  }

  size_t piece_bytes_ = 0;
  size_t run_bytes_ = 0;
  CuDevicePtr base_ = 0;

 private:
  // The addresses of the run again, as reservations that touch.
  void reserve_each() {
    ASSERT_EQ(kSuccess, driver().cuMemAddressFree(base_, run_bytes_));
    for (size_t i = 0; i < kPieces; ++i) {
      CuDevicePtr got = 0;
      ASSERT_EQ(kSuccess, driver().cuMemAddressReserve(&got, piece_bytes_, 0, piece(i), 0));
      ASSERT_EQ(piece(i), got) << "the address was free";
    }
  }
};

TEST_P(AdjacentMappings, AreGrantedAccessByOneCall) {
  ASSERT_EQ(kSuccess, grant(base_, run_bytes_));

  const CuLocation here{kLocationDevice, 0};
  for (size_t i = 0; i < kPieces; ++i) {
    unsigned long long flags = 0;
    EXPECT_EQ(kSuccess, driver().cuMemGetAccess(&flags, &here, piece(i)));
    EXPECT_EQ(static_cast<unsigned>(kAccessReadWrite), flags) << "piece " << i;
  }
}

TEST_P(AdjacentMappings, AreFilledByOneCall) {
  ASSERT_EQ(kSuccess, grant(base_, run_bytes_));

  EXPECT_EQ(kSuccess, driver().cuMemsetD8(base_, 5, run_bytes_));

  for (size_t i = 0; i < kPieces; ++i) EXPECT_TRUE(filled(piece(i), 0x05050505, piece_bytes_));
}

TEST_P(AdjacentMappings, AreCopiedByOneCall) {
  ASSERT_EQ(kSuccess, grant(base_, run_bytes_));
  std::vector<uint32_t> sent(run_bytes_ / sizeof(uint32_t));
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<uint32_t>(i);
  std::vector<uint32_t> received(sent.size());

  ASSERT_EQ(kSuccess, driver().cuMemcpyHtoD(base_, sent.data(), run_bytes_));
  ASSERT_EQ(kSuccess, driver().cuMemcpyDtoH(received.data(), base_, run_bytes_));

  EXPECT_TRUE(sent == received);
}

TEST_P(AdjacentMappings, AreCopiedByOneCallOfAStream) {
  CuStream stream = nullptr;
  void* pinned = nullptr;
  ASSERT_EQ(kSuccess, driver().cuStreamCreate(&stream, kStreamNonBlocking));
  ASSERT_EQ(kSuccess, driver().cuMemHostAlloc(&pinned, run_bytes_, 0));
  ASSERT_EQ(kSuccess, grant(base_, run_bytes_));
  for (size_t i = 0; i < kPieces; ++i) fill(piece(i), static_cast<uint32_t>(i), piece_bytes_);

  EXPECT_EQ(kSuccess, driver().cuMemcpyDtoHAsync(pinned, base_, run_bytes_, stream));
  EXPECT_EQ(kSuccess, driver().cuStreamSynchronize(stream));

  const auto* words = static_cast<const uint32_t*>(pinned);
  const size_t piece_words = piece_bytes_ / sizeof(uint32_t);
  for (size_t i = 0; i < kPieces; ++i) {
    EXPECT_EQ(i, words[i * piece_words]);
    EXPECT_EQ(i, words[(i + 1) * piece_words - 1]);
  }
  EXPECT_EQ(kSuccess, driver().cuMemFreeHost(pinned));
  EXPECT_EQ(kSuccess, driver().cuStreamDestroy(stream));
}

TEST_P(AdjacentMappings, AreUnmappedByOneCall) {
  ASSERT_EQ(kSuccess, driver().cuMemUnmap(base_, run_bytes_));

  for (size_t i = 0; i < kPieces; ++i) {
    CuMemHandle handle = 0;
    EXPECT_FALSE(mapped(piece(i))) << "piece " << i;
    EXPECT_NE(kSuccess,
              driver().cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(piece(i))));
  }
}

// NCCL unmaps its flat address space so (dev_runtime.cc:197@2.30.7).
TEST_P(AdjacentMappings, WithAHoleAreUnmappedByOneCall) {
  unmap_piece(kHole);

  ASSERT_EQ(kSuccess, driver().cuMemUnmap(base_, run_bytes_));

  for (size_t i = 0; i < kPieces; ++i) EXPECT_FALSE(mapped(piece(i))) << "piece " << i;
}

TEST_P(AdjacentMappings, ThatAreGoneAreUnmappedAgain) {
  ASSERT_EQ(kSuccess, driver().cuMemUnmap(base_, run_bytes_));

  EXPECT_EQ(kSuccess, driver().cuMemUnmap(base_, run_bytes_));
  EXPECT_EQ(kSuccess, driver().cuMemUnmap(piece(1), piece_bytes_));
}

// What is still mapped afterwards is not asserted: on H200 (driver 580.159) the pieces were not
// found any more, on the simulator they are. amem refuses such a range itself and never asks the
// driver.
TEST_P(AdjacentMappings, ACutIsRefused) {
  EXPECT_EQ(kErrorInvalidValue, driver().cuMemUnmap(base_, piece_bytes_ + granularity()));
}

// The call succeeds, but what lies behind the hole has no access (measured on H200, driver
// 580.159).
TEST_P(AdjacentMappings, WithAHoleAreGrantedAccessUpToTheHole) {
  unmap_piece(kHole);

  ASSERT_EQ(kSuccess, grant(base_, run_bytes_));

  EXPECT_FALSE(mapped(piece(kHole)));
  fill(piece(kHole - 1), 7, piece_bytes_);
  EXPECT_TRUE(filled(piece(kHole - 1), 7, piece_bytes_));
}

INSTANTIATE_TEST_SUITE_P(OfOneReservation, AdjacentMappings, testing::Values(Reserved::kTogether));
INSTANTIATE_TEST_SUITE_P(OfSeparateReservations, AdjacentMappings,
                         testing::Values(Reserved::kEachForItself));

}  // namespace
}  // namespace amem::contract
