// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

namespace amem {

/// Levels of AMEM_LOG. A line is written if its level is not greater than the configured level.
enum class LogLevel { error = 1, warn = 2, info = 3, debug = 4, trace = 5 };

/// True if lines of this level are written. Fast enough for hooked calls.
bool log_enabled(LogLevel level);

/// Writes one line to standard error, or to AMEM_LOG_FILE if it can be opened. `device` is -1 if
/// the line concerns no device. AMEM_LOG_FORMAT, with the time in UTC and the rank of a launcher:
///
///   text    2026-11-28T09:30:00.125Z host:pid:tid [device] AMEM INFO message
///   logfmt  time=2026-11-28T09:30:00.125Z level=info host=... pid=... tid=... rank=...
///   msg="message" json    {"time":"2026-11-28T09:30:00.125Z","level":"info",...,"msg":"message"}
///
/// Does not allocate or throw; one write(2) for each line.
///
/// Writes no line to standard error if the application has closed standard error and opened a file
/// of its own, which then has descriptor 2. The kernel does not tell such a file from one to which
/// the application has redirected standard error (dup2(2), freopen(3)). A line is written into the
/// file that was open there at note_standard_error(), and into any file that is open for appending,
/// that another descriptor leads to as well, or that is there while a copy of the first one is
/// open. It is never written into a file that is closed on exec. Before note_standard_error() and
/// while descriptor 2 was always open, any other file counts as standard error.
[[gnu::format(printf, 3, 4)]] void log_line(LogLevel level, int device, const char* format, ...);

/// To be called when amem is loaded or enabled. Only the first call has an effect.
void note_standard_error();

}  // namespace amem

#define AMEM_LOG(level, device, ...)                                  \
  do {                                                                \
    if (::amem::log_enabled(::amem::LogLevel::level))                 \
      ::amem::log_line(::amem::LogLevel::level, device, __VA_ARGS__); \
  } while (false)
