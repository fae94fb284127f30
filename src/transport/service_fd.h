// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/unique_fd.h"

namespace amem {

/// Owns an fd of the peer service. A table notes which numbers these are, so that a forked child
/// can close them without a lock and without walking structures that another thread was changing
/// when fork() copied them. One bit per number up to the kernel's default ceiling (fs.nr_open,
/// proc(5)); a forked child keeps a number above it open until it execs.
class ServiceFd {
 public:
  explicit ServiceFd(UniqueFd fd) : fd_(std::move(fd)) {
    if (is_noted()) word(get()).fetch_or(bit(get()), std::memory_order_relaxed);
  }
  /// Before the close(2): the number may be somebody else's the moment it is free.
  ~ServiceFd() {
    if (is_noted()) word(get()).fetch_and(~bit(get()), std::memory_order_relaxed);
  }
  ServiceFd(ServiceFd&&) noexcept = default;

  int get() const { return fd_.get(); }

  /// In a forked child: closes all that there are. Async-signal-safe.
  static void close_all() {
    for (size_t i = 0; i < noted_.size(); ++i) {
      uint64_t set = noted_[i].exchange(0, std::memory_order_relaxed);
      for (; set != 0; set &= set - 1) close(static_cast<int>(i * 64) + std::countr_zero(set));
    }
  }

 private:
  static constexpr int kNumbers = 1 << 20;

  bool is_noted() const { return fd_.valid() && get() < kNumbers; }
  static uint64_t bit(int fd) { return uint64_t{1} << (fd % 64); }
  static std::atomic<uint64_t>& word(int fd) { return noted_[static_cast<size_t>(fd) / 64]; }

  static inline std::array<std::atomic<uint64_t>, kNumbers / 64> noted_{};
  UniqueFd fd_;
};

}  // namespace amem
