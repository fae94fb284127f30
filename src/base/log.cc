// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "base/log.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>

#include "base/environment.h"
#include "base/system_call.h"

namespace amem {
namespace {

/// By LogLevel.
constexpr const char* kLevelNames[] = {"", "ERROR", "WARN", "INFO", "DEBUG", "TRACE"};

}  // namespace

bool log_enabled(LogLevel level) { return static_cast<long>(level) <= environment().log_level; }

void log_line(LogLevel level, int device, const char* format, ...) {
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
