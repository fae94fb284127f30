// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <link.h>
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "base/cancellation.h"
#include "interpose/elf_view.h"

namespace amem {

/// One ELF image of this process: the executable, a library or the vDSO. Valid only during
/// visit_images(), which prevents its unloading.
struct Image {
  explicit Image(const dl_phdr_info& info);

  const char* path;  ///< the loader's name; "" for the executable
  uintptr_t load_bias;
  uintptr_t begin = UINTPTR_MAX, end = 0;    ///< of all segments
  uintptr_t relro_begin = 0, relro_end = 0;  ///< read-only after relocation (PT_GNU_RELRO)
  std::span<const ElfW(Phdr)> headers;
  ElfView view;

  std::string_view file_name() const { return path + std::string_view(path).rfind('/') + 1; }
  bool contains(uintptr_t address) const { return address >= begin && address < end; }
  /// True if the loader has applied the image's relocations. An image that another thread is
  /// loading can be visited before that.
  bool is_relocated() const;
};

/// The number of images that the loader has added and removed since the start of the process.
unsigned long long image_changes();

/// The loader's list lock as ThreadSanitizer sees it, which does not know it.
struct ListLock {
#ifdef __SANITIZE_THREAD__
  ListLock() { __tsan_acquire(&mark); }
  ~ListLock() { __tsan_release(&mark); }
  static inline char mark = 0;
#else
  ListLock() {}
#endif
};

/// Calls `visit(const Image&)` for each image in the order of loading, the executable first, but
/// for those for which `skip(const dl_phdr_info&)` is true, which cost little. Holds the loader's
/// list lock, so no image is added or removed. Neither function may allocate, take a lock or call
/// the loader. Source: dl_iterate_phdr(3).
template <typename Skip, typename Visit>
void visit_images(Skip&& skip, Visit&& visit) {
  const NoCancellation no_cancellation;
  auto both = [&](const dl_phdr_info& info) {
    if (!skip(info)) visit(Image(info));
  };
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* argument) {
        const ListLock lock;
        (*static_cast<decltype(both)*>(argument))(*info);
        return 0;
      },
      &both);
}
/// The same for all images.
template <typename Visit>
void visit_images(Visit&& visit) {
  visit_images([](const dl_phdr_info&) { return false; }, visit);
}

/// The address of the first definition of `name` in the order of loading, without this library: the
/// result of a look-up in the global scope. 0 if there is none.
uintptr_t first_definition(const char* name);

/// Calls `visit(const char* path, const ElfView&)` for each image that dlmopen(3) loaded into
/// another namespace; visit_images() does not visit these. The rules of visit_images() apply.
/// Source: <link.h> of glibc 2.35, whose r_debug_extended older headers lack; with an older glibc
/// r_version is 1, and no image is visited.
template <typename Visit>
void visit_other_namespaces(Visit&& visit) {
  struct NamespaceList {
    r_debug own;
    const NamespaceList* next;
  };
  const auto* own = reinterpret_cast<const NamespaceList*>(first_definition("_r_debug"));
  visit_images([&](const Image&) {
    const auto* const list = std::exchange(own, nullptr);  // once, with the list lock held
    if (list == nullptr || list->own.r_version < 2) return;
    for (const NamespaceList* other = list->next; other != nullptr; other = other->next)
      for (const link_map* image = other->own.r_map; image != nullptr; image = image->l_next)
        if (image->l_ld != nullptr) visit(image->l_name, ElfView(image->l_addr, image->l_ld));
  });
}

/// True for an address in this library.
bool is_in_this_library(uintptr_t address);

}  // namespace amem
