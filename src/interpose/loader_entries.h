// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <array>
#include <cstdint>

namespace amem {

using DlopenFunction = void* (*)(const char* file, int flags);
using DlsymFunction = void* (*)(void* handle, const char* name);

/// A function of the loader and its replacement in the slots of other images.
struct LoaderEntry {
  const char* name;
  uintptr_t real;     ///< the process's own definition: the first in the order of loading
  const void* entry;  ///< calls its route below and jumps to the result
};

/// Finds dlopen and dlsym of this process. Must be called once, before an entry is in a slot.
std::array<LoaderEntry, 2> find_loader_entries();

/// The final targets of the entries. REQUIRES: find_loader_entries().
DlopenFunction real_dlopen();
DlsymFunction real_dlsym();

}  // namespace amem

extern "C" {

/// The entries (loader_entries.S). Each calls its route and jumps to the result, with the caller's
/// arguments and return address, because the real functions derive the caller from the return
/// address. The caller's RUNPATH, RPATH and $ORIGIN determine where dlopen(3) searches for a name
/// without '/'. RTLD_NEXT of dlsym(3) means the libraries after the caller's.
///
/// A path is not searched for, and glibc does not use the caller's RPATH for the dependencies of a
/// library loaded by path (dlopen_test.cc). Such a call is therefore a normal call: its images are
/// patched before it returns. Other images are patched at the next look-up.
void amem_dlopen_entry();
void amem_dlsym_entry();

amem::DlopenFunction amem_dlopen_route(const char* file) noexcept;
amem::DlsymFunction amem_dlsym_route(void* handle, const char* name) noexcept;
}
