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

namespace amem {

/// Owns one file descriptor; -1 owns none.
///
/// A table records the numbers of all objects, so that a forked child can close them without a lock
/// and without reading structures that another thread was changing during fork(). It has one bit
/// for each number up to the default of fs.nr_open (proc(5)); a forked child keeps higher numbers,
/// and a descriptor that another thread was opening or closing during fork(), open until it calls
/// exec().
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) { note(); }
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~UniqueFd() { reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  /// The descriptor belongs to the caller from now on, also in forked children.
  int release() {
    (void)forget();
    return std::exchange(fd_, -1);
  }
  void reset(int fd = -1) {
    if (forget()) close(fd_);
    fd_ = fd;
    note();
  }

  /// In a forked child: closes the descriptors of all objects, which own none afterwards. The child
  /// can use the numbers again. Async-signal-safe.
  static void close_all() {
    for (size_t i = 0; i < noted_.size(); ++i) {
      uint64_t set = noted_[i].exchange(0, std::memory_order_relaxed);
      for (; set != 0; set &= set - 1) close(static_cast<int>(i * 64) + std::countr_zero(set));
    }
  }

 private:
  static constexpr int kNumbers = 1 << 20;

  bool is_noted() const { return valid() && fd_ < kNumbers; }
  uint64_t bit() const { return uint64_t{1} << (fd_ % 64); }
  std::atomic<uint64_t>& word() const { return noted_[static_cast<size_t>(fd_) / 64]; }
  void note() {
    if (is_noted()) word().fetch_or(bit(), std::memory_order_relaxed);
  }
  /// To be called before close(2): another thread may get the number immediately afterwards. False
  /// if there is nothing to close.
  bool forget() {
    if (!is_noted()) return valid();
    return (word().fetch_and(~bit(), std::memory_order_relaxed) & bit()) != 0;
  }

  // Relaxed: a bit is changed in the order in which the kernel gives its number to threads and
  // takes it back, and a forked child sees the words as they were at fork(2).
  static inline std::array<std::atomic<uint64_t>, kNumbers / 64> noted_{};
  int fd_ = -1;
};

}  // namespace amem
