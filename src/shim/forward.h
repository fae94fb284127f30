// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

extern "C" {

/// The address that a trampoline of libnccl.so.2 jumps to for `name`, and keeps: our wrapper for
/// the calls that we gate, the real NCCL's function for all others, or a function that returns an
/// error where that library lacks it or is missing.
///
/// Never null. The same answer for the same name, whenever and by whichever thread it is asked.
[[gnu::visibility("default")]] void* amemForward(const char* name) noexcept;
}
