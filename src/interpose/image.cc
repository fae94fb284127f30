// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "interpose/image.h"

#include <algorithm>
#include <cstring>

// Defined by the linker: the ELF header of the image that this code is linked into.
extern "C" [[gnu::visibility("hidden")]] const ElfW(Ehdr) __ehdr_start;

namespace amem {

Image::Image(const dl_phdr_info& info)
    : path(info.dlpi_name != nullptr ? info.dlpi_name : ""),
      load_bias(info.dlpi_addr),
      begin(UINTPTR_MAX),
      end(0),
      relro_begin(0),
      relro_end(0),
      headers(info.dlpi_phdr, info.dlpi_phnum),
      view(info) {
  for (const ElfW(Phdr) & header : headers) {
    const uintptr_t from = load_bias + header.p_vaddr;
    if (header.p_type == PT_LOAD) {
      begin = std::min(begin, from);
      end = std::max(end, from + header.p_memsz);
    } else if (header.p_type == PT_GNU_RELRO) {
      relro_begin = from;
      relro_end = from + header.p_memsz;
    }
  }
}

const char* Image::name() const {
  const char* const slash = strrchr(path, '/');
  return slash == nullptr ? path : slash + 1;
}

bool Image::is_relocated() const {
  // The loader processes DT_JMPREL last, in order. An unbound slot holds the address of the image's
  // own PLT: in the file without the load bias, in memory with it.
  if (load_bias == 0) return true;
  const auto relocations = view.plt_relocations();
  for (auto last = relocations.rbegin(); last != relocations.rend(); ++last) {
    // A weak symbol that nobody defines stays 0.
    const ElfW(Sym)* const symbol = view.symbol_of(*last);
    if (symbol != nullptr && ELF64_ST_BIND(symbol->st_info) == STB_WEAK) continue;
    return *view.slot_of(*last) >= end - load_bias;
  }
  return true;
}

ImageChanges image_changes() {
  ImageChanges changes;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* out) {
        *static_cast<ImageChanges*>(out) = {info->dlpi_adds, info->dlpi_subs};
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
  const auto base = reinterpret_cast<uintptr_t>(&__ehdr_start);
  const auto* const headers = reinterpret_cast<const ElfW(Phdr)*>(base + __ehdr_start.e_phoff);
  uintptr_t size_bytes = 0;
  for (size_t i = 0; i < __ehdr_start.e_phnum; ++i)
    if (headers[i].p_type == PT_LOAD)
      size_bytes = std::max(size_bytes, headers[i].p_vaddr + headers[i].p_memsz);
  return address - base < size_bytes;
}

}  // namespace amem
