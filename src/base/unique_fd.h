// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
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
///
/// An application may close all descriptors, also those of libraries, and open its own files, which
/// get the numbers. A number whose file is another one than at the beginning is not closed. (The
/// kernel gives all epoll and event descriptors one inode: they are not told apart.)
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) { note(); }
  UniqueFd(UniqueFd&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), identity_(other.identity_) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this == &other) return *this;
    reset();
    fd_ = std::exchange(other.fd_, -1);
    identity_ = other.identity_;
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
    const bool is_own = is_open();
    if (forget() && is_own) close(fd_);
    fd_ = fd;
    note();
  }

  /// False if the application has closed the descriptor, or another file has its number now.
  bool is_open() const { return valid() && identity_ == identity_of(fd_); }

  /// In a forked child: closes the descriptors of all objects, which own none afterwards. The child
  /// can use the numbers again. Async-signal-safe.
  static void close_all() {
    for (size_t i = 0; i < noted_.size(); ++i) {
      uint64_t set = noted_[i].exchange(0, std::memory_order_relaxed);
      for (; set != 0; set &= set - 1) {
        const size_t number = i * 64 + static_cast<size_t>(std::countr_zero(set));
        if (identities_[number].load() == identity_of(static_cast<int>(number)))
          close(static_cast<int>(number));
      }
    }
  }

 private:
  static constexpr int kNumbers = 1 << 20;

  /// 0 if no file has the number.
  static uint32_t identity_of(int fd) {
    // A file system gives the inode of a file that was removed to the next one: the time of birth
    // tells them apart where it is known.
    struct statx file {};
    if (statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &file) != 0)
      return fcntl(fd, F_GETFD) < 0 ? 0 : 1;
    const bool has_time = (file.stx_mask & STATX_BTIME) != 0;
    uint64_t hash = 0;
    for (const uint64_t part :
         {uint64_t{file.stx_dev_major}, uint64_t{file.stx_dev_minor}, uint64_t{file.stx_ino},
          has_time ? static_cast<uint64_t>(file.stx_btime.tv_sec) : 0,
          has_time ? uint64_t{file.stx_btime.tv_nsec} : 0})
      hash = (hash + part) * 0x9e3779b97f4a7c15u;
    return static_cast<uint32_t>(hash >> 32) | 1;
  }
  size_t index() const { return static_cast<size_t>(fd_); }
  bool is_noted() const { return valid() && fd_ < kNumbers; }
  uint64_t bit() const { return uint64_t{1} << (fd_ % 64); }
  std::atomic<uint64_t>& word() const { return noted_[index() / 64]; }
  void note() {
    if (!valid()) return;
    identity_ = identity_of(fd_);
    if (!is_noted()) return;
    identities_[index()] = identity_;
    word().fetch_or(bit(), std::memory_order_relaxed);
  }
  /// To be called before close(2): another thread may get the number immediately afterwards. False
  /// if there is nothing to close.
  bool forget() {
    if (!is_noted()) return valid();
    if (identities_[index()] != identity_) return false;
    return (word().fetch_and(~bit(), std::memory_order_relaxed) & bit()) != 0;
  }

  // Relaxed: a bit is changed in the order in which the kernel gives its number to threads and
  // takes it back, and a forked child sees the words as they were at fork(2).
  static inline std::array<std::atomic<uint64_t>, kNumbers / 64> noted_{};
  /// Of the files at the numbers that are noted. Pages of it that no number needs take no memory.
  static inline std::array<std::atomic<uint32_t>, kNumbers> identities_{};
  int fd_ = -1;
  uint32_t identity_ = 0;
};

}  // namespace amem
