// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>
#include <cstdint>

namespace amem {

using DlsymFunction = void* (*)(void* handle, const char* name);
using DlvsymFunction = void* (*)(void* handle, const char* name, const char* version);

/// dlsym as an image that holds NCCL gets it for names that concern us: names of the driver's
/// look-up functions and of hooked driver functions are answered with our entry points, names of
/// functions that make memory immovable with ours in front of theirs, everything else as the loader
/// answers. Callable from any thread.
void* hooked_dlsym(void* handle, const char* name);

/// The same for dlvsym, by which NCCL finds libibverbs (ibvsymbols.cc:93@v2.30.7-1).
void* hooked_dlvsym(void* handle, const char* name, const char* version);

/// A function by which NCCL looks up others, and what stands in for it in NCCL's slots.
struct LookUpEntry {
  const char* symbol;
  const void* entry;
  /// Where the function itself is kept for the entry; nullptr when the entry finds it.
  std::atomic<uintptr_t>* real;
};
/// nullptr for other symbols. dlsym and dlvsym in NCCL's own builds, which contain the CUDA
/// runtime; cudaGetDriverEntryPoint and its form ByVersion in builds that are linked with
/// libcudart. Does not allocate or take a lock.
const LookUpEntry* look_up_entry(const char* symbol);

}  // namespace amem

extern "C" {

/// What stand in for the loader's functions in an image that holds NCCL (lookup_entry.S): they ask
/// the routes below where to go and jump there, with the caller's arguments and return address in
/// place. Callable from any thread.
///
/// The real functions find out who asks from the return address: RTLD_NEXT means the libraries
/// after the caller's own, as a wrapper of NCCL asks for what it wraps, and RTLD_DEFAULT also those
/// that only the caller was loaded with. So nearly everything gets a jump to them, and the hooked
/// functions only what we may have to answer: the names that concern us, and never by RTLD_NEXT, by
/// which nobody looks for the driver. By RTLD_DEFAULT such a name is found as this library finds
/// it.
void* amem_nccl_dlsym_entry(void* handle, const char* name);
void* amem_nccl_dlvsym_entry(void* handle, const char* name, const char* version);

amem::DlsymFunction amem_nccl_dlsym_route(void* handle, const char* name) noexcept;
amem::DlvsymFunction amem_nccl_dlvsym_route(void* handle, const char* name) noexcept;
}
