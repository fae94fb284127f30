// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

namespace amem {

/// Levels of AMEM_LOG: a line is written when its level is not above the set one.
enum class LogLevel { error = 1, warn = 2, info = 3, debug = 4, trace = 5 };

/// True when lines of this level are written; cheap enough for hooked calls.
bool log_enabled(LogLevel level);

/// Writes one line to standard error in NCCL's shape: "host:pid:tid [dev] AMEM INFO text". `device`
/// -1 when none is meant. Never allocates, never throws; one write(2) a line.
[[gnu::format(printf, 3, 4)]] void log_line(LogLevel level, int device, const char* format, ...);

}  // namespace amem

#define AMEM_LOG(level, device, ...)                                  \
  do {                                                                \
    if (::amem::log_enabled(::amem::LogLevel::level))                 \
      ::amem::log_line(::amem::LogLevel::level, device, __VA_ARGS__); \
  } while (false)
