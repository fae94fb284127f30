// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <string>
#include <vector>

namespace amem {

/// amem's libnccl.so.2 and libamem_nccl.so, found relative to this program, so that an installed
/// tree can be moved. The second one would come along as a dependency of the first, but then behind
/// libc, whose dlopen it stands in front of (docs/interception.md). Throws Failure when they are
/// not there or when LD_PRELOAD cannot carry their paths.
std::vector<std::string> find_libraries();

/// `before` with those of `libraries` behind it that it does not name already. Ours come last, so
/// that allocators and the like, which want to be first, stay so.
std::string compose_preload(const std::string& before, const std::vector<std::string>& libraries);

}  // namespace amem
