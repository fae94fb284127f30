// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <link.h>

#include <cstdint>
#include <span>

#include "interpose/elf_view.h"

namespace amem {

/// One ELF image of this process: the executable, a library or the vDSO. Valid only during
/// visit_images(), which keeps the image from being unmapped.
struct Image {
  explicit Image(const dl_phdr_info& info);

  const char* path;  ///< as the loader has it; "" for the executable
  uintptr_t load_bias;
  uintptr_t begin, end;              ///< of all segments
  uintptr_t relro_begin, relro_end;  ///< read-only after relocation (PT_GNU_RELRO)
  std::span<const ElfW(Phdr)> headers;
  ElfView view;

  bool contains(uintptr_t address) const { return address >= begin && address < end; }
  /// The file name without its folders.
  const char* name() const;
  /// Has the loader applied the image's relocations? An image that another thread is loading is
  /// visited before that.
  bool is_relocated() const;
};

/// How many images the loader has added to this process and removed from it since its start.
struct ImageChanges {
  unsigned long long added = 0, removed = 0;
  bool operator==(const ImageChanges&) const = default;
};
ImageChanges image_changes();

/// Calls `visit(const Image&)` for each image, the executable first, in the order of loading. The
/// loader's list lock is held meanwhile: no image is added or removed. `visit` must not allocate,
/// take a lock or call the loader.
/// Source: dl_iterate_phdr(3).
template <typename Visit>
void visit_images(Visit&& visit) {
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* argument) {
        (*static_cast<std::remove_reference_t<Visit>*>(argument))(Image(*info));
        return 0;
      },
      &visit);
}

/// The address of the first definition of `name` in the order of loading, this library excepted:
/// what the global scope resolves the name to. 0 when there is none.
uintptr_t first_definition(const char* name);

/// True for an address in this library.
bool is_in_this_library(uintptr_t address);

}  // namespace amem
