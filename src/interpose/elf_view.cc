// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "interpose/elf_view.h"

#include <algorithm>
#include <cstring>

namespace amem {
namespace {

uint32_t gnu_hash_of(const char* name) {
  uint32_t hash = 5381;
  for (; *name != '\0'; ++name) hash = hash * 33 + static_cast<unsigned char>(*name);
  return hash;
}

uint32_t sysv_hash_of(const char* name) {
  uint32_t hash = 0;
  for (; *name != '\0'; ++name) {
    hash = (hash << 4) + static_cast<unsigned char>(*name);
    hash ^= (hash >> 24) & 0xf0;
    hash &= 0x0fffffff;
  }
  return hash;
}

}  // namespace

ElfView::ElfView(uintptr_t load_bias, const ElfW(Dyn) * dynamic) : load_bias_(load_bias) {
  const auto value = [dynamic](ElfW(Sxword) tag) -> uintptr_t {
    for (const ElfW(Dyn)* entry = dynamic; entry != nullptr && entry->d_tag != DT_NULL; ++entry)
      if (entry->d_tag == tag) return entry->d_un.d_val;
    return 0;
  };
  // glibc writes loaded addresses into the dynamic section of most images, but not into a read-only
  // one such as the vDSO's. An address below the load bias has not been relocated.
  const auto table = [&]<typename T>(ElfW(Sxword) tag, const T*& out) {
    const uintptr_t address = value(tag);
    if (address != 0)
      out = reinterpret_cast<const T*>(address >= load_bias_ ? address : address + load_bias_);
  };
  table(DT_SYMTAB, symbols_);
  table(DT_STRTAB, strings_);
  if (symbols_ == nullptr || strings_ == nullptr) return;
  table(DT_HASH, sysv_hash_);
  table(DT_GNU_HASH, gnu_hash_);
  table(DT_VERSYM, versions_);
  const ElfW(Rela)* data = nullptr;
  const ElfW(Rela)* plt = nullptr;
  table(DT_RELA, data);
  table(DT_JMPREL, plt);
  if (data != nullptr) {
    const std::span all(data, value(DT_RELASZ) / sizeof *data);
    data_relocations_ = all.subspan(std::min(value(DT_RELACOUNT), all.size()));
  }
  if (plt != nullptr) plt_relocations_ = std::span(plt, value(DT_PLTRELSZ) / sizeof *plt);
}

const ElfW(Sym) * ElfView::symbol_of(const ElfW(Rela) & relocation) const {
  const uint64_t index = ELF64_R_SYM(relocation.r_info);
  return index == STN_UNDEF ? nullptr : symbols_ + index;
}

const ElfW(Sym) * ElfView::definition_at(uint32_t index, const char* name) const {
  const ElfW(Sym)& symbol = symbols_[index];
  const bool offered = symbol.st_shndx != SHN_UNDEF && ELF64_ST_BIND(symbol.st_info) != STB_LOCAL &&
                       !is_old_version(index);
  return offered && strcmp(name_of(symbol), name) == 0 ? &symbol : nullptr;
}

// The table: buckets, first symbol, bloom words, bloom shift; the filter; the buckets; the chains,
// whose last hash has bit 0 set.
const ElfW(Sym) * ElfView::find_by_gnu_hash(const char* name) const {
  const uint32_t bucket_count = gnu_hash_[0], first = gnu_hash_[1], bloom_words = gnu_hash_[2];
  if (bucket_count == 0) return nullptr;
  const uint32_t* const buckets = gnu_hash_ + 4 + bloom_words * (sizeof(ElfW(Addr)) / 4);
  const uint32_t* const chains = buckets + bucket_count;
  const uint32_t wanted = gnu_hash_of(name);
  uint32_t index = buckets[wanted % bucket_count];
  if (index < first) return nullptr;
  for (;; ++index) {
    const uint32_t hash = chains[index - first];
    const bool may_be = (hash | 1) == (wanted | 1);
    const ElfW(Sym)* const found = may_be ? definition_at(index, name) : nullptr;
    if (found != nullptr || (hash & 1) != 0) return found;
  }
}

const ElfW(Sym) * ElfView::find_by_sysv_hash(const char* name) const {
  const uint32_t bucket_count = sysv_hash_[0];
  if (bucket_count == 0) return nullptr;
  const uint32_t* const buckets = sysv_hash_ + 2;
  const uint32_t* const chains = buckets + bucket_count;
  uint32_t index = buckets[sysv_hash_of(name) % bucket_count];
  for (; index != STN_UNDEF; index = chains[index])
    if (const ElfW(Sym)* const found = definition_at(index, name)) return found;
  return nullptr;
}

const ElfW(Sym) * ElfView::definition(const char* name) const {
  if (gnu_hash_ != nullptr) return find_by_gnu_hash(name);
  return sysv_hash_ != nullptr ? find_by_sysv_hash(name) : nullptr;
}

uintptr_t ElfView::address_of(const char* name) const {
  const ElfW(Sym)* symbol = definition(name);
  return symbol == nullptr || symbol->st_value == 0 ? 0 : load_bias_ + symbol->st_value;
}

}  // namespace amem
