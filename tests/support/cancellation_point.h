// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <pthread.h>

#if defined(__SANITIZE_ADDRESS__)
extern "C" void __asan_handle_no_return();
#endif

namespace amem {

/// pthread_testcancel(3). AddressSanitizer does not notice that a cancelled thread leaves its
/// functions, and takes their variables on the stack for valid in the thread's destructors.
inline void cancellation_point() {
#if defined(__SANITIZE_ADDRESS__)
  __asan_handle_no_return();
#endif
  pthread_testcancel();
}

}  // namespace amem
