// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <span>
#include <string>
#include <vector>

namespace amem {

/// The paths that ldconfig(8) noted for the library `soname`, best first; empty when the cache has
/// none or is not one.
///
/// Read from the file rather than asked of the loader: dlopen("libnccl.so.2") would return our own
/// library, which bears that SONAME and is loaded already. Entries of other architectures are
/// included: who uses a path looks at the file anyway. `cache` is the contents of /etc/ld.so.cache
/// in the format glibc 2.2 and later write ("glibc-ld.so.cache1.1"), alone or after the older one.
std::vector<std::string> paths_in_loader_cache(std::span<const char> cache,
                                               const std::string& soname);

}  // namespace amem
