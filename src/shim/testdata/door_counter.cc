// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// With dlopen_door.cc and dlopen_entry.S: the door as a library of its own, which counts.
#include <atomic>

#include "shim/dlopen_door.h"

namespace {
constinit std::atomic<int> calls{0};
}

void amem::on_new_images() { ++calls; }

extern "C" [[gnu::visibility("default")]] int door_calls() { return calls; }
