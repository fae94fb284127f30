// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "tests/support/file_calls.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace amem {
namespace {

FileCalls* g_calls = nullptr;

}  // namespace

FileCalls::FileCalls() { g_calls = this; }
FileCalls::~FileCalls() { g_calls = nullptr; }

ssize_t FileCalls::real_pread(int file, void* to, size_t size_bytes, off_t offset) {
  return syscall(SYS_pread64, file, to, size_bytes, offset);
}

ssize_t FileCalls::real_pwrite(int file, const void* from, size_t size_bytes, off_t offset) {
  return syscall(SYS_pwrite64, file, from, size_bytes, offset);
}

}  // namespace amem

extern "C" {

ssize_t pread(int file, void* to, size_t size_bytes, off_t offset) {
  if (amem::g_calls != nullptr && amem::g_calls->pread)
    return amem::g_calls->pread(file, to, size_bytes, offset);
  return amem::FileCalls::real_pread(file, to, size_bytes, offset);
}

ssize_t pwrite(int file, const void* from, size_t size_bytes, off_t offset) {
  if (amem::g_calls != nullptr && amem::g_calls->pwrite)
    return amem::g_calls->pwrite(file, from, size_bytes, offset);
  return amem::FileCalls::real_pwrite(file, from, size_bytes, offset);
}

int fdatasync(int file) {
  if (amem::g_calls != nullptr && amem::g_calls->fdatasync) return amem::g_calls->fdatasync(file);
  return static_cast<int>(syscall(SYS_fdatasync, file));
}

int fallocate(int file, int mode, off_t offset, off_t size_bytes) {
  if (amem::g_calls != nullptr && amem::g_calls->fallocate)
    return amem::g_calls->fallocate(file, mode, offset, size_bytes);
  return static_cast<int>(syscall(SYS_fallocate, file, mode, offset, size_bytes));
}

}  // extern "C"
