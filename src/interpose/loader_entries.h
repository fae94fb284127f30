// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <array>
#include <cstdint>

namespace amem {

using DlopenFunction = void* (*)(const char* file, int flags);
using DlsymFunction = void* (*)(void* handle, const char* name);

/// A function of the loader and what stands in for it in the slots of other images.
struct LoaderEntry {
  const char* name;
  uintptr_t real;     ///< the process' own definition: the first in the order of loading
  const void* entry;  ///< asks its route below and jumps there
};

/// Finds dlopen and dlsym of this process. To be called once, before an entry is in any slot.
std::array<LoaderEntry, 2> find_loader_entries();

/// What the entries jump to in the end. REQUIRES: find_loader_entries().
DlopenFunction real_dlopen();
DlsymFunction real_dlsym();

}  // namespace amem

extern "C" {

/// The entries (loader_entries.S). Each asks its route where to go and jumps there, with the
/// caller's arguments and return address in place: the real functions find out who calls from the
/// return address. The caller's RUNPATH, RPATH and $ORIGIN decide where dlopen(3) looks for a name
/// without '/'; RTLD_NEXT of dlsym(3) means the libraries after the caller's.
///
/// A path is not looked for, and glibc does not search the dependencies of what is loaded by a path
/// along the caller's RPATH either (dlopen_test.cc). Such a call therefore does not jump: the
/// images that it loads are patched before it returns. The others are patched at the next look-up.
void amem_dlopen_entry();
void amem_dlsym_entry();

amem::DlopenFunction amem_dlopen_route(const char* file) noexcept;
amem::DlsymFunction amem_dlsym_route(void* handle, const char* name) noexcept;
}
