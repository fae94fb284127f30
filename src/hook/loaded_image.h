// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "hook/elf_view.h"

namespace amem {

/// One ELF image of this process: the executable, a library or the vDSO. A snapshot: valid until
/// the image is unloaded, which nobody but its owner can rule out; NCCL never is.
struct LoadedImage {
  /// As the loader has it; empty for the executable.
  std::string path;
  /// What is added to an address in the file to get the address in memory.
  uintptr_t load_bias;
  /// Memory addresses [begin, end) of the image's segments.
  uintptr_t begin, end;
  bool is_executable;
  ElfView view;

  bool contains(const void* address) const {
    const auto value = reinterpret_cast<uintptr_t>(address);
    return value >= begin && value < end;
  }
};

/// The images of this process in the order of their loading, the executable first. Takes the
/// loader's lock for its duration.
std::vector<LoadedImage> loaded_images();

/// Those of them that offer `symbol` to others.
std::vector<LoadedImage> images_exporting(const char* symbol);

/// Replaces what `symbol` resolves to in one loaded image: the slot of every JUMP_SLOT, GLOB_DAT
/// and absolute 64-bit relocation of that name, bound or not. A page that RELRO made read-only is
/// made writable for the store and gets its former protection back.
///
/// Returns the number of slots that now hold `replacement`, 0 when the image does not use the
/// symbol. `*previous` (may be null) becomes the function that the symbol meant before: a slot's
/// old value or, when no slot was bound yet, what a search of the global scope gives (null when
/// that finds none). Never the lazy stub of the image's PLT: calling that would make the loader
/// write its own answer over ours. Left as it is when all slots held `replacement` already, so a
/// second redirection is harmless.
///
/// Thread-safe. A first call of `symbol` that another thread is just binding may still win; call it
/// before the image is used. Error (os) when a page cannot be made writable; slots before it are
/// then redirected, and calling again is right.
Result<int> redirect_import(const LoadedImage& image, const char* symbol, void* replacement,
                            void** previous);

}  // namespace amem
