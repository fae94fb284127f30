// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <link.h>

#include <cstdint>
#include <span>

namespace amem {

/// The dynamic section of an image in this process: its symbols and relocations.
///
/// The view trusts the tables, like the dynamic loader. It owns nothing and is valid while the
/// image is loaded. No member allocates or takes a lock. Source: System V ABI, "Dynamic Linking".
class ElfView {
 public:
  /// `dynamic` is nullptr for an image without a dynamic section.
  ElfView(uintptr_t load_bias, const ElfW(Dyn) * dynamic);

  /// The symbol with which the image defines `name` for other images, or nullptr. Of several
  /// versions, the default one; nullptr if there is none, as for dlsym(3).
  const ElfW(Sym) * definition(const char* name) const;
  /// The address of this definition, or 0.
  uintptr_t address_of(const char* name) const;

  /// DT_RELA without the relative relocations at its start, and DT_JMPREL.
  std::span<const ElfW(Rela)> data_relocations() const { return data_relocations_; }
  std::span<const ElfW(Rela)> plt_relocations() const { return plt_relocations_; }
  /// The symbol of a relocation, or nullptr.
  const ElfW(Sym) * symbol_of(const ElfW(Rela) & relocation) const;
  const char* name_of(const ElfW(Sym) & symbol) const { return strings_ + symbol.st_name; }
  /// The address at which the image defines the symbol; 0 if it only refers to it.
  uintptr_t own_address(const ElfW(Sym) & symbol) const {
    return symbol.st_shndx == SHN_UNDEF ? 0 : load_bias_ + symbol.st_value;
  }
  uintptr_t* slot_of(const ElfW(Rela) & relocation) const {
    return reinterpret_cast<uintptr_t*>(load_bias_ + relocation.r_offset);
  }

 private:
  const ElfW(Sym) * definition_at(uint32_t index, const char* name) const;
  /// True for a version that only programs use that were linked with an earlier library
  /// (name@VERSION in place of name@@VERSION).
  bool is_old_version(uint32_t index) const {
    return versions_ != nullptr && (versions_[index] & 0x8000) != 0;
  }
  const ElfW(Sym) * find_by_gnu_hash(const char* name) const;
  const ElfW(Sym) * find_by_sysv_hash(const char* name) const;

  uintptr_t load_bias_;
  const ElfW(Sym) * symbols_ = nullptr;
  const char* strings_ = nullptr;
  const uint32_t* sysv_hash_ = nullptr;
  const uint32_t* gnu_hash_ = nullptr;
  const ElfW(Half) * versions_ = nullptr;
  std::span<const ElfW(Rela)> data_relocations_;
  std::span<const ElfW(Rela)> plt_relocations_;
};

}  // namespace amem
