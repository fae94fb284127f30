// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <string>
#include <vector>

namespace amem {

/// The folder of this program. Throws.
std::string program_folder();

/// The libraries in this value of LD_PRELOAD.
std::vector<std::string> preloads_in(const std::string& variable);

/// The path of libamem_nccl.so, relative to this program, so that an installed tree can be moved.
/// Throws Failure if the library is missing or LD_PRELOAD cannot contain its path.
std::string find_library();

/// Appends `library` to `before`, unless it is already there. It is last, so that allocators and
/// similar libraries can be first.
std::string compose_preload(const std::string& before, const std::string& library);

}  // namespace amem
