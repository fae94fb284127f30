// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "base/log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdarg>
#include <cstdint>
#include <cstdio>

#include "base/cancellation.h"
#include "base/environment.h"
#include "base/system_call.h"

namespace amem {
namespace {

/// By LogLevel.
constexpr const char* kLevelNames[] = {"", "ERROR", "WARN", "INFO", "DEBUG", "TRACE"};

constexpr uint64_t kNotNoted = 0, kNone = 1;

/// Identifies the file of a descriptor; kNone if there is none.
uint64_t file_at(int fd) {
  struct stat file {};
  return fstat(fd, &file) == 0 ? file.st_dev * 0x9e3779b97f4a7c15u + file.st_ino : kNone;
}

/// A descriptor with this flag, which dup2(2) clears, is not standard error: children inherit that.
uint64_t file_at_standard_error() {
  return (fcntl(STDERR_FILENO, F_GETFD) & FD_CLOEXEC) != 0 ? kNone : file_at(STDERR_FILENO);
}

std::atomic<uint64_t> g_first{kNotNoted}, g_redirected{kNone};

/// False if a line would be written into a file of the application. After dup2(2), the file often
/// has another descriptor too, or a copy of the first one is kept.
bool has_standard_error() {
  constexpr int kDescriptors = 1024;
  const uint64_t file = file_at_standard_error();
  if (file == kNone) note_standard_error();
  if (file == kNone || g_first == kNotNoted) return file != kNone;
  const int mode = fcntl(STDERR_FILENO, F_GETFL);
  bool found = file == g_first || file == g_redirected || (mode & O_APPEND) != 0;
  for (int fd = 0; fd < kDescriptors && !found; ++fd) {
    const uint64_t other = fd != STDERR_FILENO ? file_at(fd) : kNone;
    found = other == file ? fcntl(fd, F_GETFL) == mode
                          : fd > STDERR_FILENO && other != kNone && other == g_first;
  }
  if (found) g_redirected = file;
  return found;
}

}  // namespace

void note_standard_error() {
  uint64_t before = kNotNoted;
  g_first.compare_exchange_strong(before, file_at_standard_error());
}

bool log_enabled(LogLevel level) { return static_cast<long>(level) <= environment().log_level; }

void log_line(LogLevel level, int device, const char* format, ...) {
  const NoCancellation no_cancellation;
  if (!has_standard_error()) return;
  char host[64] = "?";
  gethostname(host, sizeof host - 1);
  char where[16] = "-";
  if (device >= 0) snprintf(where, sizeof where, "%d", device);

  char line[1280];
  const int head =
      snprintf(line, sizeof line, "%s:%d:%ld [%s] AMEM %s ", host, getpid(),
               static_cast<long>(syscall(SYS_gettid)), where, kLevelNames[static_cast<int>(level)]);
  va_list args;
  va_start(args, format);
  const int body = vsnprintf(line + head, sizeof line - static_cast<size_t>(head), format, args);
  va_end(args);
  const size_t length = std::min<size_t>(static_cast<size_t>(head + body), sizeof line - 1);
  line[length] = '\n';
  const DiscardedSignals discarded;
  [[maybe_unused]] ssize_t written = write(STDERR_FILENO, line, length + 1);
}

}  // namespace amem
