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

/// Owns a descriptor of the peer service. A table records these numbers, so that a forked child can
/// close them without a lock and without reading structures that another thread was changing during
/// fork(). It has one bit for each number up to the default of fs.nr_open (proc(5)); a forked child
/// keeps higher numbers open until it calls exec().
class ServiceFd {
 public:
  explicit ServiceFd(UniqueFd fd) : fd_(std::move(fd)) {
    if (is_noted()) word(get()).fetch_or(bit(get()), std::memory_order_relaxed);
  }
  /// To be called before close(2): another thread may get the number immediately afterwards.
  ~ServiceFd() {
    if (is_noted()) word(get()).fetch_and(~bit(get()), std::memory_order_relaxed);
  }
  ServiceFd(ServiceFd&&) noexcept = default;

  int get() const { return fd_.get(); }

  /// In a forked child: closes all of them. Async-signal-safe.
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
