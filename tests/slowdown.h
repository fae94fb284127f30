// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

namespace amem {

#ifdef AMEM_SLOWDOWN
inline constexpr bool kSanitized = true;
inline constexpr long kSlowdown = AMEM_SLOWDOWN;
#else
/// Is this a build with a sanitizer? Its own memory and mappings count as ours in /proc.
inline constexpr bool kSanitized = false;
/// How many times longer things may take than in a plain build: the factor of the deadlines in
/// tests. cmake/AmemTargets.cmake sets it.
inline constexpr long kSlowdown = 1;
#endif

}  // namespace amem
