// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

namespace amem {

/// Gives entries in lower layers what they need from this one. Called when the library is loaded.
void set_up_entries();

/// Starts the interception of the calls of NCCL and of the CUDA runtime. Idempotent, thread-safe.
/// Reads no settings.
void catch_calls();

}  // namespace amem
