// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "shim/enable.h"

#include <atomic>

#include "amem.h"
#include "base/environment.h"
#include "shim/nccl_copies.h"

namespace amem {
namespace {

constinit std::atomic<bool> g_enabled{false};

}  // namespace

bool is_enabled() { return g_enabled.load(std::memory_order_relaxed) || environment().enable; }

}  // namespace amem

extern "C" [[gnu::visibility("default")]] void amemEnable(void) {
  amem::g_enabled.store(true, std::memory_order_relaxed);
  amem::catch_nccl();
}
