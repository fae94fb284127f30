// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "interpose/image.h"

#include <algorithm>

// Defined by the linker: the ELF header of the image that this code is linked into.
extern "C" [[gnu::visibility("hidden")]] const ElfW(Ehdr) __ehdr_start;

namespace amem {

Image::Image(const dl_phdr_info& info)
    : path(info.dlpi_name != nullptr ? info.dlpi_name : ""),
      load_bias(info.dlpi_addr),
      headers(info.dlpi_phdr, info.dlpi_phnum),
      view(load_bias, nullptr) {
  for (const ElfW(Phdr) & header : headers) {
    const uintptr_t from = load_bias + header.p_vaddr;
    if (header.p_type == PT_LOAD) {
      begin = std::min(begin, from);
      end = std::max(end, from + header.p_memsz);
    } else if (header.p_type == PT_GNU_RELRO) {
      relro_begin = from;
      relro_end = from + header.p_memsz;
    } else if (header.p_type == PT_DYNAMIC) {
      view = ElfView(load_bias, reinterpret_cast<const ElfW(Dyn)*>(from));
    }
  }
}

bool Image::is_relocated() const {
  // The loader processes DT_JMPREL last, in order. An unbound slot holds the address of the image's
  // own PLT: in the file without the load bias, in memory with it.
  if (load_bias == 0) return true;
  const auto relocations = view.plt_relocations();
  for (auto last = relocations.rbegin(); last != relocations.rend(); ++last) {
    // An undefined weak symbol stays 0.
    const ElfW(Sym)* const symbol = view.symbol_of(*last);
    if (symbol != nullptr && ELF64_ST_BIND(symbol->st_info) == STB_WEAK) continue;
    return *view.slot_of(*last) >= end - load_bias;
  }
  return true;
}

unsigned long long image_changes() {
  unsigned long long changes = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* out) {
        *static_cast<unsigned long long*>(out) = info->dlpi_adds + info->dlpi_subs;
        return 1;
      },
      &changes);
  return changes;
}

uintptr_t first_definition(const char* name) {
  uintptr_t found = 0;
  visit_images([&](const Image& image) {
    if (found == 0 && !image.contains(reinterpret_cast<uintptr_t>(&__ehdr_start)))
      found = image.view.address_of(name);
  });
  return found;
}

bool is_in_this_library(uintptr_t address) {
  dl_phdr_info info{};
  info.dlpi_addr = reinterpret_cast<uintptr_t>(&__ehdr_start);
  info.dlpi_phdr = reinterpret_cast<const ElfW(Phdr)*>(info.dlpi_addr + __ehdr_start.e_phoff);
  info.dlpi_phnum = __ehdr_start.e_phnum;
  return Image(info).contains(address);
}

}  // namespace amem
