// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sim/minccl/fifo.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace amem::minccl {
namespace {

constexpr size_t kSlotBytes = 1024;

/// A connection whose two ends are in one process.
class Fifo : public testing::TestWithParam<Protocol> {
 protected:
  Fifo() {
    for (int protocol = 0; protocol < kProtocols; ++protocol) {
      memory_[protocol].resize(kSlots * kSlotBytes / sizeof(uint64_t));
      sender_.fifo[protocol] = reinterpret_cast<std::byte*>(memory_[protocol].data());
      sender_.slot_bytes[protocol] = kSlotBytes;
    }
    sender_.head = &head_;
    sender_.tail = &tail_;
    receiver_ = sender_;
  }

  std::vector<std::byte> bytes_of(int seed, size_t size) {
    std::vector<std::byte> bytes(size);
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 3 + seed);
    return bytes;
  }

  // True when the receiver found in the next slot what was sent as `seed`.
  bool receive(RecvEnd& end, int seed, size_t size) {
    std::vector<std::byte> scratch(kSlotBytes);
    bool same = memcmp(end.read(size, scratch.data()), bytes_of(seed, size).data(), size) == 0;
    end.release();
    return same;
  }

  std::vector<uint64_t> memory_[kProtocols];
  uint64_t head_ = 0;
  uint64_t tail_ = 0;
  DeviceConnection sender_{};
  DeviceConnection receiver_{};
};

TEST_P(Fifo, DeliversEverySizeInOrderOverManyWraps) {
  SendEnd send(&sender_, GetParam());
  RecvEnd recv(&receiver_, GetParam());
  for (int seed = 0; seed < 300; ++seed) {
    size_t size = 1 + seed * 7 % send.payload();
    ASSERT_FALSE(recv.arrived(size));
    ASSERT_TRUE(send.has_credit());

    send.post(bytes_of(seed, size).data(), size);

    ASSERT_TRUE(recv.arrived(size));
    ASSERT_TRUE(receive(recv, seed, size)) << "message " << seed << " of " << size << " bytes";
  }
}

TEST_P(Fifo, GivesTheSenderEightSlots) {
  SendEnd send(&sender_, GetParam());
  RecvEnd recv(&receiver_, GetParam());
  for (int seed = 0; seed < kSlots; ++seed) {
    ASSERT_TRUE(send.has_credit());
    send.post(bytes_of(seed, 100).data(), 100);
  }
  EXPECT_FALSE(send.has_credit());

  EXPECT_TRUE(receive(recv, 0, 100));

  EXPECT_TRUE(send.has_credit());
}

TEST_P(Fifo, GoesOnWhereTheLastKernelStopped) {
  for (int seed = 0; seed < 3 * kSlots; ++seed) {
    SendEnd send(&sender_, GetParam());
    RecvEnd recv(&receiver_, GetParam());
    send.post(bytes_of(seed, 64).data(), 64);
    ASSERT_TRUE(recv.arrived(64));
    ASSERT_TRUE(receive(recv, seed, 64));
    send.save();
    recv.save();
  }
  EXPECT_EQ(sender_.step, 3u * kSlots);
  EXPECT_EQ(receiver_.step, 3u * kSlots);
  EXPECT_EQ(head_, 3u * kSlots);
}

// The 32-bit flag comes round: the slot's last flag of that value is 2^32 steps old.
TEST_P(Fifo, SurvivesTheWrapOfTheFlag) {
  sender_.step = receiver_.step = head_ = tail_ = (1ull << 32) - 3;
  SendEnd send(&sender_, GetParam());
  RecvEnd recv(&receiver_, GetParam());
  for (int seed = 0; seed < kSlots; ++seed) {
    send.post(bytes_of(seed, 64).data(), 64);
    ASSERT_TRUE(recv.arrived(64));
    ASSERT_TRUE(receive(recv, seed, 64));
  }
}

INSTANTIATE_TEST_SUITE_P(Protocols, Fifo,
                         testing::Values(Protocol::ll, Protocol::ll128, Protocol::simple));

}  // namespace
}  // namespace amem::minccl
