// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <sys/types.h>

#include <functional>

namespace amem {

/// What the C library's functions for files do in this program while the object exists; empty: what
/// they always do. Set them before another thread runs. The program contains file_calls.cc.
struct FileCalls {
  FileCalls();
  ~FileCalls();
  FileCalls(const FileCalls&) = delete;

  std::function<ssize_t(int, void*, size_t, off_t)> pread;
  std::function<ssize_t(int, const void*, size_t, off_t)> pwrite;
  std::function<int(int)> fdatasync;
  std::function<int(int, int, off_t, off_t)> fallocate;

  // The C library's.
  static ssize_t real_pread(int file, void* to, size_t size_bytes, off_t offset);
  static ssize_t real_pwrite(int file, const void* from, size_t size_bytes, off_t offset);
};

}  // namespace amem
