// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/unique_fd.h"

namespace amem {

/// Which fd numbers the peer service owns at this moment, readable in a forked child without a lock
/// and without walking structures that another thread was changing when fork() copied them.
/// Thread-safe. One bit per fd number up to the kernel's default ceiling (fs.nr_open, proc(5)); a
/// number above it is used all the same, but a forked child keeps it open until it execs.
class FdLedger {
 public:
  void add(int fd) {
    if (covers(fd)) word(fd).fetch_or(bit(fd), std::memory_order_relaxed);
  }
  /// Before the close(2), never after: the number may be somebody else's the moment it is free.
  void remove(int fd) {
    if (covers(fd)) word(fd).fetch_and(~bit(fd), std::memory_order_relaxed);
  }
  bool holds(int fd) const {
    return covers(fd) && ((*words_)[index(fd)].load(std::memory_order_relaxed) & bit(fd)) != 0;
  }
  /// In a forked child: closes every number noted. Async-signal-safe.
  void close_all() {
    for (size_t i = 0; i < kWords; ++i) {
      uint64_t set = (*words_)[i].exchange(0, std::memory_order_relaxed);
      for (; set != 0; set &= set - 1) close(static_cast<int>(i * 64) + std::countr_zero(set));
    }
  }

 private:
  static constexpr size_t kWords = (1u << 20) / 64;

  static bool covers(int fd) { return fd >= 0 && index(fd) < kWords; }
  static size_t index(int fd) { return static_cast<size_t>(fd) / 64; }
  static uint64_t bit(int fd) { return uint64_t{1} << (fd % 64); }
  std::atomic<uint64_t>& word(int fd) { return (*words_)[index(fd)]; }

  std::unique_ptr<std::array<std::atomic<uint64_t>, kWords>> words_ =
      std::make_unique<std::array<std::atomic<uint64_t>, kWords>>();
};

/// Owns one fd and keeps it noted in a ledger for as long. The ledger must outlive it.
class TrackedFd {
 public:
  TrackedFd(FdLedger& ledger, UniqueFd fd) : ledger_(&ledger), fd_(std::move(fd)) {
    ledger_->add(fd_.get());
  }
  TrackedFd(TrackedFd&&) noexcept = default;
  TrackedFd& operator=(TrackedFd&& other) noexcept {
    if (this != &other) {
      ledger_->remove(fd_.get());
      ledger_ = other.ledger_;
      fd_ = std::move(other.fd_);
    }
    return *this;
  }
  ~TrackedFd() { ledger_->remove(fd_.get()); }

  int get() const { return fd_.get(); }

 private:
  FdLedger* ledger_;
  UniqueFd fd_;
};

inline std::vector<TrackedFd> track(FdLedger& ledger, std::vector<UniqueFd> fds) {
  std::vector<TrackedFd> tracked;
  tracked.reserve(fds.size());
  for (UniqueFd& fd : fds) tracked.emplace_back(ledger, std::move(fd));
  return tracked;
}

}  // namespace amem
