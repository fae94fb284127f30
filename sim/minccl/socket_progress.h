// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "sim/minccl/connection_end.h"
#include "sim/minccl/launch_ledger.h"
#include "sim/minccl/sockets.h"

namespace amem::minccl {

/// The host side of one FIFO whose slots travel over a socket. socket_stream.cc.
class SocketStream {
 public:
  SocketStream(Direction direction, UniqueFd fd, const DeviceConnection& fifo)
      : direction_(direction), fd_(std::move(fd)), fifo_(fifo) {}

  /// Moves what can be moved without waiting; true when that was anything.
  bool progress(LaunchLedger& ledger);
  /// True when all slots that the kernel filled are with the operating system.
  bool drained() const;
  int fd() const { return fd_.get(); }
  /// What poll(2) should wait for while no kernel runs; 0 for nothing.
  short events() const;

 private:
  struct Frame {
    uint32_t bytes;
    uint32_t protocol;
  };

  bool progress_send(LaunchLedger& ledger);
  bool progress_recv(LaunchLedger& ledger);
  bool begin_frame();
  bool has_room() const;
  bool receive_part(LaunchLedger& ledger);
  void deliver();
  bool give_up(LaunchLedger& ledger, bool is_error);
  std::byte* slot() const;

  Direction direction_;
  UniqueFd fd_;
  DeviceConnection fifo_;
  bool closed_ = false;
  uint64_t slots_done_ = 0;
  Frame frame_{};
  size_t frame_done_ = 0;  ///< bytes of the frame moved, its header included
  std::vector<std::byte> arriving_;
};

/// The proxy thread of a communicator (NCCL's "Progress" thread). It sleeps in poll(2) while no
/// kernel runs and no peer sends. Thread-safe.
class SocketProgress {
 public:
  explicit SocketProgress(std::shared_ptr<LaunchLedger> ledger) : ledger_(std::move(ledger)) {}
  ~SocketProgress() { stop(); }

  /// Starts the thread with the first stream. `fifo` holds host addresses.
  ncclResult_t add(Direction direction, UniqueFd fd, const DeviceConnection& fifo, int* number);
  void remove(int number);
  /// Waits until everything that kernels have sent has left this process.
  bool drain(Deadline deadline);
  void stop();

 private:
  ncclResult_t start();
  void wake();
  void serve();
  bool pass();
  void sleep();

  std::shared_ptr<LaunchLedger> ledger_;
  std::mutex mutex_;
  std::map<int, SocketStream> streams_;
  int next_number_ = 1;
  UniqueFd wake_event_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace amem::minccl
