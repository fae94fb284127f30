// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

namespace amem {

using DlopenFunction = void* (*)(const char* file, int flags);

/// dlopen(3) as it would be without libamem_nccl.so: the next one in the order of look-up. Never
/// null. Thread-safe.
DlopenFunction real_dlopen();

/// Called after a library was loaded by its path, on the loading thread; inside a constructor that
/// loads, that thread still holds the loader's lock. Any number of times, also by several threads
/// at once. Defined once for each library that has the door (forward.cc for ours). Must not leave
/// an error for dlerror(3).
void on_new_images();

}  // namespace amem

extern "C" {

/// Asked by `dlopen` of libamem_nccl.so (dlopen_entry.S) at each call: the function that it jumps
/// to, with the caller's arguments and return address in place.
///
/// The real dlopen finds out who calls from the return address: the caller's RUNPATH, RPATH and
/// $ORIGIN decide where a name without '/' is looked for. So nearly everything gets a jump to it
/// and never notices us. A name with '/' (and without '$') is not looked for, and glibc does not
/// search the dependencies of what is loaded so along the caller's RPATH either
/// (dlopen_door_test.cc), so that we may be the caller. The caller also names the namespace to load
/// into; one made by dlmopen(3) has a libc of its own and never comes here.
///
/// While AMEM_ENABLE is not 1 everything gets the jump.
amem::DlopenFunction amem_dlopen_route(const char* file) noexcept;
}
