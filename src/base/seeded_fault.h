// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace amem {

/// True when the tests asked for this violation of the protocol, to see that a test notices it.
/// Only in the library that the tests build with AMEM_SEEDED_FAULTS; constant false, and gone, in
/// the one that ships.
inline bool seeded_fault([[maybe_unused]] const char* name) {
#ifdef AMEM_SEEDED_FAULTS
  const char* wanted = getenv("AMEM_TEST_SEEDED_FAULT");
  return wanted != nullptr && strcmp(wanted, name) == 0;
#else
  return false;
#endif
}

/// The calling thread is at the point of this name, which goes to the file AMEM_TEST_STEP_FILE, for
/// the report of a test that hangs. When the tests asked for it with
/// AMEM_TEST_STEP_POINT=name=signal, the process gets that signal now, and once only; with
/// name=signal:n at the n-th time that a thread is there.
inline void seeded_signal([[maybe_unused]] const char* point) {
#ifdef AMEM_SEEDED_FAULTS
  if (const char* const path = getenv("AMEM_TEST_STEP_FILE")) {
    const int file = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    [[maybe_unused]] const ssize_t written = write(file, point, strlen(point));
    close(file);
  }
  const char* const wanted = getenv("AMEM_TEST_STEP_POINT");
  if (wanted == nullptr) return;
  const size_t length = strlen(point);
  if (strncmp(wanted, point, length) != 0 || wanted[length] != '=') return;
  int signal = 0, times = 1;
  sscanf(wanted + length + 1, "%d:%d", &signal, &times);
  if (times > 1) {
    char later[128];
    snprintf(later, sizeof later, "%s=%d:%d", point, signal, times - 1);
    setenv("AMEM_TEST_STEP_POINT", later, 1);
    return;
  }
  unsetenv("AMEM_TEST_STEP_POINT");
  raise(signal);
#endif
}

}  // namespace amem
