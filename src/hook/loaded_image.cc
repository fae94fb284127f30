// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "hook/loaded_image.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>

#include "base/mutex.h"

namespace amem {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kJumpSlot = R_X86_64_JUMP_SLOT;
constexpr uint32_t kGlobDat = R_X86_64_GLOB_DAT;
constexpr uint32_t kAbsolute = R_X86_64_64;
#else
constexpr uint32_t kJumpSlot = R_AARCH64_JUMP_SLOT;
constexpr uint32_t kGlobDat = R_AARCH64_GLOB_DAT;
constexpr uint32_t kAbsolute = R_AARCH64_ABS64;
#endif

bool holds_symbol_address(uint32_t relocation_type) {
  return relocation_type == kJumpSlot || relocation_type == kGlobDat ||
         relocation_type == kAbsolute;
}

/// The addend counts for absolute relocations only; JUMP_SLOT and GLOB_DAT ignore it (x86-64 psABI
/// §4.4.1) or have it 0 (AAELF64 §5.7.14).
uintptr_t addend_of(const SymbolRelocation& relocation) {
  return relocation.type == kAbsolute ? static_cast<uintptr_t>(relocation.addend) : 0;
}

/// The protection (PROT_*) that the page at `address` has now; -1 when it is not mapped. Asked of
/// the kernel rather than taken from PT_GNU_RELRO: in an image that another thread is still loading
/// the range is not read-only yet, and making it so would kill that thread.
int protection_of(uintptr_t address) {
  std::unique_ptr<FILE, int (*)(FILE*)> maps(fopen("/proc/self/maps", "re"), fclose);
  if (maps == nullptr) return -1;
  char* line = nullptr;
  size_t capacity = 0;
  int protection = -1;
  while (protection < 0 && getline(&line, &capacity, maps.get()) > 0) {
    unsigned long low = 0, high = 0;
    char mode[5] = "";
    if (sscanf(line, "%lx-%lx %4s", &low, &high, mode) != 3 || address < low || address >= high)
      continue;
    protection = (mode[0] == 'r' ? PROT_READ : 0) | (mode[1] == 'w' ? PROT_WRITE : 0) |
                 (mode[2] == 'x' ? PROT_EXEC : 0);
  }
  free(line);
  return protection;
}

Status store(const LoadedImage& image, uintptr_t* slot, uintptr_t value) {
  const auto page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t page = reinterpret_cast<uintptr_t>(slot) & ~(page_bytes - 1);
  const int protection = protection_of(page);
  const bool sealed = protection < 0 || (protection & PROT_WRITE) == 0;
  // Never PROT_EXEC with PROT_WRITE: hardened kernels refuse the pair, and no slot lies in code.
  if (sealed && mprotect(reinterpret_cast<void*>(page), page_bytes, PROT_READ | PROT_WRITE) != 0)
    return os_error(errno, "mprotect(%p of %s, %zu bytes, read and write)",
                    reinterpret_cast<void*>(page), image.path.c_str(),
                    static_cast<size_t>(page_bytes));
  __atomic_store_n(slot, value, __ATOMIC_RELEASE);
  if (sealed && protection >= 0)
    mprotect(reinterpret_cast<void*>(page), page_bytes, protection);  // only hardening is lost
  return ok_status();
}

/// True when the slot still leads to the image's own lazy-binding stub instead of to the function.
bool is_unbound(const LoadedImage& image, const SymbolRelocation& relocation, uintptr_t value) {
  if (value == 0) return true;
  if (!image.contains(reinterpret_cast<void*>(value))) return false;
  return relocation.own_definition == 0 || value != image.load_bias + relocation.own_definition;
}

int append_image(dl_phdr_info* info, size_t, void* out) {
  auto& images = *static_cast<std::vector<LoadedImage>*>(out);
  LoadedImage image{info->dlpi_name != nullptr ? info->dlpi_name : "",
                    info->dlpi_addr,
                    UINTPTR_MAX,
                    0,
                    images.empty(),
                    ElfView::of_loaded(*info)};
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    if (header.p_type != PT_LOAD) continue;
    image.begin = std::min(image.begin, info->dlpi_addr + header.p_vaddr);
    image.end = std::max(image.end, info->dlpi_addr + header.p_vaddr + header.p_memsz);
  }
  images.push_back(std::move(image));
  return 0;
}

struct Redirection {
  int slots = 0;
  bool changed = false;
  uintptr_t bound = 0;
};

Result<Redirection> redirect_slots(const LoadedImage& image, const char* symbol, uintptr_t target) {
  // Two threads on one page would restore each other's protection. Nothing that takes the loader's
  // lock may run under this one: a constructor may hold that and wait here.
  static Mutex* const mutex = new Mutex;
  MutexLock lock(*mutex);

  Redirection done;
  for (const SymbolRelocation& relocation : image.view.relocations_of(symbol)) {
    if (!holds_symbol_address(relocation.type)) continue;
    auto* slot = reinterpret_cast<uintptr_t*>(image.load_bias + relocation.address);
    const uintptr_t old = __atomic_load_n(slot, __ATOMIC_ACQUIRE) - addend_of(relocation);
    if (old != target) {
      AMEM_TRY(store(image, slot, target + addend_of(relocation)));
      done.changed = true;
      if (!is_unbound(image, relocation, old)) done.bound = old;
    }
    ++done.slots;
  }
  return done;
}

}  // namespace

std::vector<LoadedImage> loaded_images() {
  std::vector<LoadedImage> images;
  dl_iterate_phdr(append_image, &images);
  return images;
}

std::vector<LoadedImage> images_exporting(const char* symbol) {
  std::vector<LoadedImage> images = loaded_images();
  std::erase_if(images, [symbol](const LoadedImage& image) { return !image.view.exports(symbol); });
  return images;
}

Result<int> redirect_import(const LoadedImage& image, const char* symbol, void* replacement,
                            void** previous) {
  auto done = redirect_slots(image, symbol, reinterpret_cast<uintptr_t>(replacement));
  if (!done.ok()) return std::move(done.error());
  const uintptr_t bound = done.value().bound;
  if (done.value().changed && previous != nullptr)
    *previous = bound != 0 ? reinterpret_cast<void*>(bound) : dlsym(RTLD_DEFAULT, symbol);
  return done.value().slots;
}

}  // namespace amem
