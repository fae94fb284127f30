// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sim/minccl/socket_progress.h"

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>

namespace amem::minccl {

ncclResult_t SocketProgress::start() {
  wake_event_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_event_.valid()) return fail(ncclSystemError, "eventfd: %s", strerror(errno));
  ledger_->wake_fd = wake_event_.get();
  thread_ = std::thread(&SocketProgress::serve, this);
  return ncclSuccess;
}

ncclResult_t SocketProgress::add(Direction direction, UniqueFd fd, const DeviceConnection& fifo,
                                 int* number) {
  if (!thread_.joinable()) MINCCL_TRY(start());
  {
    std::lock_guard lock(mutex_);
    *number = next_number_++;
    streams_.try_emplace(*number, direction, std::move(fd), fifo);
  }
  wake();
  return ncclSuccess;
}

void SocketProgress::remove(int number) {
  {
    std::lock_guard lock(mutex_);
    streams_.erase(number);
  }
  wake();
}

void SocketProgress::wake() {
  uint64_t one = 1;
  if (write(wake_event_.get(), &one, sizeof one) < 0 && errno != EAGAIN)
    ledger_->error = ncclSystemError;
}

bool SocketProgress::drain(Deadline deadline) {
  while (true) {
    bool drained = true;
    {
      std::lock_guard lock(mutex_);
      for (const auto& [number, stream] : streams_) drained &= stream.drained();
    }
    if (drained || deadline.passed()) return drained;
    poll(nullptr, 0, 1);
  }
}

void SocketProgress::stop() {
  if (!thread_.joinable()) return;
  stopping_ = true;
  ledger_->wake_fd = -1;
  wake();
  thread_.join();
}

bool SocketProgress::pass() {
  bool moved = false;
  std::lock_guard lock(mutex_);
  for (auto& [number, stream] : streams_) moved |= stream.progress(*ledger_);
  return moved;
}

void SocketProgress::sleep() {
  std::vector<pollfd> entries{{wake_event_.get(), POLLIN, 0}};
  {
    std::lock_guard lock(mutex_);
    for (const auto& [number, stream] : streams_)
      if (short events = stream.events(); events != 0) entries.push_back({stream.fd(), events, 0});
  }
  poll(entries.data(), entries.size(), -1);
  uint64_t count = 0;
  if (read(wake_event_.get(), &count, sizeof count) < 0 && errno != EAGAIN)
    ledger_->error = ncclSystemError;
}

void SocketProgress::serve() {
  constexpr int kPatientRounds = 200;
  for (int idle_rounds = 0; !stopping_; ++idle_rounds) {
    // Asked before the pass: a kernel may fill its last slot and end behind it, and the end of a
    // kernel wakes nobody.
    bool kernel_running = ledger_->kernel_running();
    if (pass()) {
      idle_rounds = 0;
    } else if (!kernel_running) {
      sleep();
    } else if (idle_rounds < kPatientRounds) {
      sched_yield();
    } else {
      timespec pause{0, 50'000};
      nanosleep(&pause, nullptr);
    }
  }
}

}  // namespace amem::minccl
