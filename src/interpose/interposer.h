// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>
#include <span>

#include "interpose/image.h"

namespace amem {

/// What a client intercepts. Must exist as long as the process.
struct Interception {
  /// How the client treats an image.
  enum class Adoption {
    none,       ///< a normal image
    target,     ///< calls of its functions are intercepted from now on
    not_ready,  ///< not relocated yet; will be offered again
  };

  // Called in visit_images(); its rules apply.

  /// Offers an image. If an image is offered again, the result must be the same.
  Adoption (*adopt)(const Image& image);
  /// The replacement of a target's function for other images; nullptr: no replacement.
  const void* (*replacement)(uintptr_t function);

  // Called with no lock held.

  /// Called after a scan that found a target.
  void (*targets_found)();
  /// Called before a look-up by dlsym(3) from a patched image.
  void (*before_look_up)(const char* name);
  /// The result of such a look-up if the loader has none; may be nullptr. Called only for names for
  /// which `adds` returns true.
  bool (*adds)(const char* name);
  void* (*answer)(void* handle, const char* name);
};

/// Functions that are intercepted by name, in all images except targets. Must exist as long as the
/// process. An entry in a slot of dlsym(3) takes the place of amem's own: it must continue with
/// amem_dlsym_route(), and leave the function of another interposer.
struct NamedFunctions {
  std::span<const char* const> names;
  /// The replacement for names[index], in a slot or as the result of dlsym(3); nullptr: none.
  /// `function`: the function that the caller would use; 0 for a slot that is not bound yet.
  /// `user`: the image of the slot; nullptr for dlsym(3). May be called in visit_images(); its
  /// rules apply.
  const void* (*entry)(size_t index, uintptr_t function, const Image* user);
  /// Called for each image before its slots are patched; may be nullptr. The rules of
  /// visit_images() apply.
  void (*visit)(const Image& image) = nullptr;
  /// Set by intercept_names(): those of its next call.
  std::atomic<NamedFunctions*> next{nullptr};
};

/// Call it before start_interposition(). Has no effect if it was called with the same object.
void intercept_names(NamedFunctions& functions);

/// Starts the interception: patches the images of this process, and later images when dlopen(3) or
/// dlsym(3) is called from a patched image, or at scan_images().
///
/// Slots are patched by value: slots that hold a target's function, and slots of dlopen and dlsym
/// that hold the process's own definition or are not bound yet. A slot with any other value belongs
/// to another interposer and is not changed. This library, libc, the loader, libcuda and libcudart
/// are not patched. Thread-safe; has no effect after the first call.
void start_interposition(const Interception& client);

/// Patches the images that were loaded since the last scan. If there are none, it costs one query
/// of the loader. Has no effect before start_interposition(). Thread-safe; the calling thread may
/// be loading an image.
///
/// `again`: also compares the slots of images that were patched before all their slots were bound,
/// because a thread that binds a slot may overwrite the patched value.
void scan_images(bool again = false);

/// True if the last scan found more images than can be patched.
bool left_out_images();

using DlopenFunction = void* (*)(const char* file, int flags);
using DlsymFunction = void* (*)(void* handle, const char* name);
/// dlsym of this process, which passes no entry. REQUIRES: start_interposition().
DlsymFunction real_dlsym();

}  // namespace amem

extern "C" {

/// amem's entries in the slots of dlopen and dlsym (loader_entries.S). Each calls its route and
/// jumps to the result, with the caller's arguments and return address, because the real functions
/// derive the caller from the return address. The caller's RUNPATH, RPATH and $ORIGIN determine
/// where dlopen(3) searches for a name without '/'. RTLD_NEXT of dlsym(3) means the libraries after
/// the caller's.
///
/// A path is not searched for, and glibc does not use the caller's RPATH for the dependencies of a
/// library loaded by path (dlopen_test.cc). Such a call is therefore a normal call: its images are
/// patched before it returns. Other images are patched at the next look-up.
void amem_dlopen_entry();
void amem_dlsym_entry();

amem::DlopenFunction amem_dlopen_route(const char* file) noexcept;
amem::DlsymFunction amem_dlsym_route(void* handle, const char* name) noexcept;
}
