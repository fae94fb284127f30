// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

namespace amem {

/// False on x86-64. CMake refuses other architectures.
#ifdef __aarch64__
inline constexpr bool kIsAarch64 = true;
#else
inline constexpr bool kIsAarch64 = false;
#endif

}  // namespace amem
