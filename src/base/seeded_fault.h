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

/// True if a test has requested this violation of the protocol, to verify that a test detects it.
/// Only in the test library, which is built with AMEM_SEEDED_FAULTS; constant false in the product.
inline bool seeded_fault([[maybe_unused]] const char* name) {
#ifdef AMEM_SEEDED_FAULTS
  const char* wanted = getenv("AMEM_TEST_SEEDED_FAULT");
  return wanted != nullptr && strcmp(wanted, name) == 0;
#else
  return false;
#endif
}

/// Reports that the calling thread has reached the point `name`. Writes the name to the file
/// AMEM_TEST_STEP_FILE, for the report of a test that hangs. With AMEM_TEST_STEP_POINT=name=signal,
/// the process receives that signal once; with name=signal:n, when a thread reaches the point for
/// the n-th time.
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
