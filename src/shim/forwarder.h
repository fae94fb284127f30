// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "interpose/image.h"

namespace amem {

/// Is this image amem's own libnccl.so.2? In visit_images().
bool is_forwarder(const Image& image);
/// Is this address in the image that is_forwarder() was last true for?
bool is_in_forwarder(uintptr_t address);

/// Before a look-up of `name`: where amem's libnccl.so.2 is in the process and the name is one of
/// NCCL's, loads the NCCL library behind it and hides the functions that this library lacks, so
/// that the look-up gives what it would give without amem.
void before_look_up(const char* name);

}  // namespace amem

extern "C" {

/// The address that amem's libnccl.so.2 jumps to for `name`, and keeps: the function of the NCCL
/// library behind it, through its door if it has one, or a function that returns an error where
/// that library lacks it or cannot be loaded. Never null; always the same for the same name.
/// Thread-safe.
///
/// The library is found in AMEM_NCCL_PATH, among those that the process has loaded, or in the
/// folders in which the loader looks for the program's libraries, and loaded at the first call.
[[gnu::visibility("default")]] void* amemForward(const char* name) noexcept;
}
