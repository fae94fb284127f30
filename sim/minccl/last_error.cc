// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sim/minccl/last_error.h"

#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <mutex>

#include "base/thread_value.h"
#include "sim/minccl/settings.h"

namespace amem::minccl {
namespace {

std::mutex g_mutex;
char g_text[1024];

void print_line(const char* level, const char* text) {
  char line[1200];
  int length = snprintf(line, sizeof line, "%d MINCCL %s %s\n", getpid(), level, text);
  if (length > 0 && write(STDERR_FILENO, line, static_cast<size_t>(length)) < 0) return;
}

}  // namespace

ncclResult_t fail(ncclResult_t result, const char* format, ...) {
  std::lock_guard lock(g_mutex);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(g_text, sizeof g_text, format, arguments);
  va_end(arguments);
  if (settings().debug >= DebugLevel::warn) print_line("WARN", g_text);
  return result;
}

const char* last_error() {
  struct Copy {
    std::string text;
  };
  std::string& copy = thread_value<Copy>().text;
  std::lock_guard lock(g_mutex);
  copy = g_text;
  return copy.c_str();
}

void log_info(const char* format, ...) {
  if (settings().debug < DebugLevel::info) return;
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  print_line("INFO", text);
}

}  // namespace amem::minccl
