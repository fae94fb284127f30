// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "interpose/image.h"

namespace amem {

/// True if the image is amem's own libnccl.so.2. For use in visit_images().
bool is_forwarder(const Image& image);
/// True for an address in the image for which is_forwarder() last returned true.
bool is_in_forwarder(uintptr_t address);

/// To be called before a look-up of `name`. If the process has loaded amem's libnccl.so.2 and
/// `name` is an NCCL function, loads the real NCCL and hides the functions that it lacks, so that
/// the look-up has the same result as without amem.
void before_look_up(const char* name);

}  // namespace amem

extern "C" {

/// The address to which amem's libnccl.so.2 jumps for `name`: the function of the real NCCL,
/// through its door if it has one, or a function that returns an error if the real NCCL lacks it or
/// cannot be loaded. Never null; always the same for the same name. Thread-safe.
///
/// The real NCCL is found at AMEM_NCCL_PATH, among the loaded libraries, or in the folders in which
/// the loader searches. It is loaded at the first call.
[[gnu::visibility("default")]] void* amemForward(const char* name) noexcept;
}
