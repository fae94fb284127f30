// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sim/minccl/socket_progress.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <vector>

#include "sim/minccl/fifo.h"

namespace amem::minccl {
namespace {

constexpr size_t kSlotBytes = 64;
constexpr int kKernels = 20'000;

/// The sending half of a socket connection, with the other end in the test's hands.
class SendingProgress : public testing::Test {
 protected:
  void SetUp() override {
    for (int protocol = 0; protocol < kProtocols; ++protocol) {
      memory_[protocol].resize(kSlots * kSlotBytes / sizeof(uint64_t));
      fifo_.fifo[protocol] = reinterpret_cast<std::byte*>(memory_[protocol].data());
      fifo_.slot_bytes[protocol] = kSlotBytes;
    }
    fifo_.head = &head_;
    fifo_.tail = &tail_;
    fifo_.sizes = sizes_;
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    other_end_.reset(ends[1]);
    int number = 0;
    ASSERT_EQ(progress_.add(Direction::send, UniqueFd(ends[0]), fifo_, &number), ncclSuccess);
  }

  // As a kernel does: the last thing before its end is to fill a slot.
  void run_kernel(SendEnd& end) {
    ledger_->kernel_started();
    uint64_t one = 1;
    ASSERT_EQ(write(ledger_->wake_fd, &one, sizeof one), static_cast<ssize_t>(sizeof one));
    std::byte data{1};
    end.post(&data, 1);
    ledger_->kernel_stopped();
  }

  // True when something came from the progress thread in time; takes all of it.
  bool arrives() {
    pollfd entry{other_end_.get(), POLLIN, 0};
    if (poll(&entry, 1, 2000) != 1) return false;
    char bytes[256];
    return read(other_end_.get(), bytes, sizeof bytes) > 0;
  }

  std::vector<uint64_t> memory_[kProtocols];
  uint64_t head_ = 0;
  uint64_t tail_ = 0;
  uint64_t sizes_[kSlots] = {};
  DeviceConnection fifo_{};
  UniqueFd other_end_;
  std::shared_ptr<LaunchLedger> ledger_ = std::make_shared<LaunchLedger>();
  SocketProgress progress_{ledger_};
};

// The kernel may fill its last slot and end between a look at the FIFO and the decision to sleep.
TEST_F(SendingProgress, SendsTheLastSlotOfAKernelThatHasEnded) {
  SendEnd end(&fifo_, Protocol::simple);
  for (int kernel = 0; kernel < kKernels; ++kernel) {
    run_kernel(end);
    ASSERT_TRUE(arrives()) << "the slot of kernel " << kernel << " was slept over";
  }
}

}  // namespace
}  // namespace amem::minccl
