// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace amem {

/// Where the real NCCL may be, in the order in which it is looked for. Tests make their own.
struct SearchPlaces {
  /// AMEM_NCCL_PATH: when set, the only candidate.
  std::string chosen_path;
  /// Directories of LD_LIBRARY_PATH, as the user's own choice of a NCCL.
  std::vector<std::string> library_path;
  /// Paths of the images in this process: PyTorch's libraries show which Python environment is in
  /// use.
  std::vector<std::string> loaded_objects;
  /// The program of this process, as it was started (a virtual environment's python is a link).
  std::string executable;
  /// VIRTUAL_ENV.
  std::string virtual_environment;
  /// The loader's cache, normally /etc/ld.so.cache.
  std::string loader_cache;
  /// Directories that are looked at last.
  std::vector<std::string> directories;
};

SearchPlaces search_places_of_this_process();

/// The path of the NCCL to forward to. Libraries of amem's are passed over, as is what cannot be
/// loaded here; as AMEM_NCCL_PATH either is an error that says so.
///
/// Error (unsupported): one sentence with the path or the places, and what to do. Reads files only.
Result<std::string> find_real_nccl(const SearchPlaces& places);

}  // namespace amem
