// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <string>

#include "base/result.h"

namespace amem {

/// What a file is to a search for the real NCCL.
enum class NcclFileKind {
  nccl,   ///< exports NCCL's calls and can be loaded into this process
  amem,   ///< one of amem's own libraries, which would forward to itself
  other,  ///< a shared library for this machine, but not NCCL
};

/// Tells what `path` is from its dynamic symbol table, without loading it: loading would run its
/// constructors, and a second copy of amem's would forward to the first.
///
/// Error: one sentence that begins with the path; code is ENOENT when there is no such file (or no
/// such folder), unsupported when it is damaged or for another machine. Thread-safe.
Result<NcclFileKind> inspect_nccl_file(const std::string& path);

}  // namespace amem
