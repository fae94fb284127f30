// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "interpose/slots.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/asymmetric_fence.h"

namespace amem {
namespace {

int protection_of_segment(const Image& image, uintptr_t address) {
  for (const ElfW(Phdr) & header : image.headers) {
    const uintptr_t from = image.load_bias + header.p_vaddr;
    if (header.p_type != PT_LOAD || address < from || address >= from + header.p_memsz) continue;
    return ((header.p_flags & PF_R) != 0 ? PROT_READ : 0) |
           ((header.p_flags & PF_W) != 0 ? PROT_WRITE : 0) |
           ((header.p_flags & PF_X) != 0 ? PROT_EXEC : 0);
  }
  return PROT_READ | PROT_WRITE;
}

/// Is the page writable now, by /proc/self/maps? True when that cannot be read: only hardening is
/// lost then. Reads without stdio, which allocates.
bool is_writable_now(uintptr_t address) {
  const int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return true;
  static char text[1 << 16];  // guarded by the loader's list lock
  size_t filled = 0;
  bool writable = false, found = false;
  for (ssize_t got = 0; !found && (got = read(fd, text + filled, sizeof text - filled - 1)) > 0;) {
    filled += static_cast<size_t>(got);
    text[filled] = '\0';
    char* line = text;
    for (char* newline = nullptr; !found && (newline = strchr(line, '\n')) != nullptr;
         line = newline + 1) {
      char* rest = nullptr;  // "begin-end rwxp ..."
      const uintptr_t begin = strtoul(line, &rest, 16);
      const uintptr_t end = strtoul(rest + 1, &rest, 16);
      found = address >= begin && address < end;
      writable = found && rest[2] == 'w';
    }
    filled -= static_cast<size_t>(line - text);
    memmove(text, line, filled);
  }
  close(fd);
  return writable;
}

}  // namespace

bool store_word(const Image& image, uintptr_t* word, uintptr_t value) {
  const auto address = reinterpret_cast<uintptr_t>(word);
  const bool in_relro = address >= image.relro_begin && address < image.relro_end;
  int protection = protection_of_segment(image, address);
  // The loader makes RELRO read-only after it has relocated the image. Another thread may be doing
  // that: a page that is writable now must stay so.
  if (in_relro && !is_writable_now(address)) protection &= ~PROT_WRITE;

  const auto page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  void* const page = reinterpret_cast<void*>(address & ~(page_bytes - 1));
  const bool sealed = in_relro || (protection & PROT_WRITE) == 0;
  // Some systems refuse memory that is writable and executable. Symbol tables share a segment with
  // code in some libraries, but no page.
  if (sealed && mprotect(page, page_bytes, protection | PROT_WRITE) != 0 &&
      mprotect(page, page_bytes, PROT_READ | PROT_WRITE) != 0)
    return false;
  fence_before_callers();
  __atomic_store_n(word, value, __ATOMIC_RELEASE);
  if (sealed) mprotect(page, page_bytes, protection);
  return true;
}

bool set_slot(const Image& image, const Slot& slot, const void* function) {
  return store_word(image, slot.word, reinterpret_cast<uintptr_t>(function) + slot.addend);
}

// AddressSanitizer would report reads across the variables of another image.
[[gnu::no_sanitize_address]] bool replace_variables(const Image& image, uintptr_t word,
                                                    uintptr_t by) {
  constexpr uintptr_t kWord = sizeof(uintptr_t);
  bool found = false;
  fence_before_callers();
  for (const ElfW(Phdr) & header : image.headers) {
    if (header.p_type != PT_LOAD || (header.p_flags & PF_W) == 0) continue;
    const uintptr_t begin = (image.load_bias + header.p_vaddr + kWord - 1) / kWord * kWord;
    const uintptr_t end = image.load_bias + header.p_vaddr + header.p_memsz;
    for (uintptr_t at = std::max(begin, std::min(end, image.relro_end)); at + kWord <= end;
         at += kWord) {
      auto* const variable = reinterpret_cast<uintptr_t*>(at);
      if (*variable != word) continue;
      found = true;
      if (by != word) __atomic_store_n(variable, by, __ATOMIC_RELEASE);
    }
  }
  return found;
}

}  // namespace amem
