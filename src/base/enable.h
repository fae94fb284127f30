// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>

#include "base/environment.h"

namespace amem {

/// Set by amemEnable().
inline constinit std::atomic<bool> g_enabled{false};

/// True if AMEM_ENABLE is 1 or amemEnable() was called.
inline bool is_enabled() {
  return g_enabled.load(std::memory_order_relaxed) || environment().enable;
}

}  // namespace amem
