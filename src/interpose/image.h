// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <link.h>

#include <cstdint>
#include <span>

#include "interpose/elf_view.h"

namespace amem {

/// One ELF image of this process: the executable, a library or the vDSO. Valid only during
/// visit_images(), which prevents its unloading.
struct Image {
  explicit Image(const dl_phdr_info& info);

  const char* path;  ///< the loader's name; "" for the executable
  uintptr_t load_bias;
  uintptr_t begin, end;              ///< of all segments
  uintptr_t relro_begin, relro_end;  ///< read-only after relocation (PT_GNU_RELRO)
  std::span<const ElfW(Phdr)> headers;
  ElfView view;

  bool contains(uintptr_t address) const { return address >= begin && address < end; }
  /// The file name without folders.
  const char* name() const;
  /// True if the loader has applied the image's relocations. An image that another thread is
  /// loading can be visited before that.
  bool is_relocated() const;
};

/// The number of images that the loader has added and removed since the start of the process.
struct ImageChanges {
  unsigned long long added = 0, removed = 0;
  bool operator==(const ImageChanges&) const = default;
};
ImageChanges image_changes();

/// Calls `visit(const Image&)` for each image in the order of loading, the executable first. Holds
/// the loader's list lock, so no image is added or removed. `visit` must not allocate, take a lock
/// or call the loader. Source: dl_iterate_phdr(3).
template <typename Visit>
void visit_images(Visit&& visit) {
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* argument) {
        (*static_cast<std::remove_reference_t<Visit>*>(argument))(Image(*info));
        return 0;
      },
      &visit);
}

/// The address of the first definition of `name` in the order of loading, without this library: the
/// result of a look-up in the global scope. 0 if there is none.
uintptr_t first_definition(const char* name);

/// True for an address in this library.
bool is_in_this_library(uintptr_t address);

}  // namespace amem
