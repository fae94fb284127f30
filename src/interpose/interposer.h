// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "interpose/image.h"

namespace amem {

/// What a client catches. It lives as long as the process.
struct Interception {
  /// How the client takes an image.
  enum class Adoption {
    none,       ///< like any other image
    target,     ///< calls of its functions are caught from now on
    not_ready,  ///< to be offered again: the loader has not relocated it yet
  };

  // Called in visit_images(), under its rules.

  /// Offers an image. An image may be offered again: the answer is the same then.
  Adoption (*adopt)(const Image& image);
  /// What other images get for a function of a target; nullptr: the function itself.
  const void* (*replacement)(uintptr_t function);

  // Called with no lock held.

  /// After a scan that found a target.
  void (*targets_found)();
  /// Before a look-up by dlsym(3) from a patched image.
  void (*before_look_up)(const char* name);
  /// The answer to such a look-up where the loader has none; nullptr: none either. Only asked for
  /// names that `adds` says yes to.
  bool (*adds)(const char* name);
  void* (*answer)(void* handle, const char* name);
};

/// Begins to catch calls: patches the images of this process now, and those that are loaded later
/// when dlopen(3) or dlsym(3) is called from a patched image, or at scan_images().
///
/// Slots are patched by value: a slot that holds a target's function, and slots of dlopen and dlsym
/// that hold the process' own definition or are not bound yet. A slot that holds anything else
/// belongs to another interposer and stays. Not patched: this library, libc, the loader, libcuda.
/// Thread-safe; has no effect after the first call.
void start_interposition(const Interception& client);

/// Patches the images that were loaded since the last scan. Costs one question to the loader when
/// there are none, and has no effect before start_interposition(). Thread-safe; the calling thread
/// may be loading an image.
void scan_images();

/// The client of start_interposition(); nullptr before.
const Interception* interposition_client();

}  // namespace amem
