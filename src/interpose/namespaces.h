// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <link.h>

#include <cstdint>
#include <utility>

#include "interpose/elf_view.h"
#include "interpose/image.h"

namespace amem {

/// The loader's debug information of one namespace; the first is the process's own. Source:
/// <link.h> of glibc 2.35 and later. An older glibc has only `own`, with version 1.
struct NamespaceList {
  r_debug own;
  NamespaceList* next;
};

/// The dynamic section of an image in another namespace.
inline ElfView view_of(const link_map& image) {
  ElfW(Phdr) dynamic{};
  dynamic.p_type = PT_DYNAMIC;
  dynamic.p_vaddr = reinterpret_cast<uintptr_t>(image.l_ld) - image.l_addr;
  dl_phdr_info info{};
  info.dlpi_addr = image.l_addr;
  info.dlpi_phdr = &dynamic;
  info.dlpi_phnum = 1;
  return ElfView(info);
}

/// Calls `visit(const char* path, const ElfView&)` for each image that dlmopen(3) loaded into
/// another namespace; visit_images() does not visit these. With glibc before 2.35 it visits none.
/// The rules of visit_images() apply.
template <typename Visit>
void visit_other_namespaces(Visit&& visit) {
  const auto* own = reinterpret_cast<const NamespaceList*>(first_definition("_r_debug"));
  visit_images([&](const Image&) {
    const auto* const list = std::exchange(own, nullptr);  // once, with the list lock held
    if (list == nullptr || list->own.r_version < 2) return;
    for (const NamespaceList* other = list->next; other != nullptr; other = other->next)
      for (const link_map* image = other->own.r_map; image != nullptr; image = image->l_next)
        if (image->l_ld != nullptr) visit(image->l_name, view_of(*image));
  });
}

}  // namespace amem
