// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

namespace amem {

/// Levels of AMEM_LOG. A line is written if its level is not greater than the configured level.
enum class LogLevel { error = 1, warn = 2, info = 3, debug = 4, trace = 5 };

/// True if lines of this level are written. Fast enough for hooked calls.
bool log_enabled(LogLevel level);

/// Writes one line to standard error: "host:pid:tid [dev] AMEM INFO text". `device` is -1 if the
/// line concerns no device. Does not allocate or throw; one write(2) for each line.
[[gnu::format(printf, 3, 4)]] void log_line(LogLevel level, int device, const char* format, ...);

}  // namespace amem

#define AMEM_LOG(level, device, ...)                                  \
  do {                                                                \
    if (::amem::log_enabled(::amem::LogLevel::level))                 \
      ::amem::log_line(::amem::LogLevel::level, device, __VA_ARGS__); \
  } while (false)
