// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "shim/libc_symbol.h"

#include <link.h>

#include <cstdint>
#include <string_view>

#include "hook/elf_view.h"

namespace amem {
namespace {

struct Search {
  const char* name;
  void* found;
};

int look_into(dl_phdr_info* info, size_t, void* argument) {
  auto& search = *static_cast<Search*>(argument);
  const std::string_view path = info->dlpi_name != nullptr ? info->dlpi_name : "";
  if (!path.ends_with("/libc.so.6")) return 0;
  const uintptr_t address = ElfView::of_loaded(*info).definition_of(search.name);
  if (address != 0) search.found = reinterpret_cast<void*>(info->dlpi_addr + address);
  return address != 0;
}

}  // namespace

void* libc_symbol(const char* name) {
  Search search{name, nullptr};
  dl_iterate_phdr(look_into, &search);
  return search.found;
}

}  // namespace amem
