// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <pthread.h>

#include <cstddef>
#include <functional>

#include "base/result.h"

namespace amem {

/// Starts a thread with all signals blocked: signals belong to the application's threads. Its stack
/// has kStackBytes, also where `ulimit -s` or pthread_setattr_default_np(3) allows threads less.
/// `name` is for debuggers, at most 15 characters. `run` is destroyed on the new thread, and here
/// after an error. Errors: os. (std::thread would throw.)
inline constexpr size_t kStackBytes = size_t{8} << 20;  // the default of Linux
Result<pthread_t> start_thread(const char* name, std::function<void()> run);

}  // namespace amem
