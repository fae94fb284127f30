// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "base/result.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace amem {
namespace {

std::string format_message(const char* format, va_list args) {
  char text[1024];
  vsnprintf(text, sizeof text, format, args);
  return text;
}

}  // namespace

Error make_error(ErrorKind kind, int code, const char* format, ...) {
  va_list args;
  va_start(args, format);
  Error error{kind, code, format_message(format, args)};
  va_end(args);
  return error;
}

Error MakeError::operator()(const char* format, ...) const {
  va_list args;
  va_start(args, format);
  Error error{kind, 0, format_message(format, args)};
  va_end(args);
  return error;
}

Error os_error(int code, const char* format, ...) {
  va_list args;
  va_start(args, format);
  Error error{ErrorKind::os, code, format_message(format, args)};
  va_end(args);
  char text[128];
  error.message += ": ";
  error.message += strerror_r(code, text, sizeof text);
  return error;
}

}  // namespace amem
