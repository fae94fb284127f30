// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <string>

namespace amem {

/// amem's libamem_nccl.so, found relative to this program, so that an installed tree can be moved.
/// Throws Failure when it is not there or when LD_PRELOAD cannot carry its path.
std::string find_library();

/// `before` with `library` behind it, if it does not name it already. Ours comes last, so that
/// allocators and the like, which want to be first, stay so.
std::string compose_preload(const std::string& before, const std::string& library);

}  // namespace amem
