// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <pthread.h>

#include "base/result.h"

namespace amem {

/// Starts a thread with all signals blocked: signals belong to the application's threads. `name` is
/// for debuggers, at most 15 characters. Errors: os. (std::thread would throw.)
Result<pthread_t> start_thread(const char* name, void* (*run)(void*), void* argument);

}  // namespace amem
