// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "hook/elf_view.h"

#include <algorithm>
#include <string>

namespace amem {
namespace {

std::string machine_name(unsigned machine) {
  switch (machine) {
    case EM_X86_64:
      return "x86-64";
    case EM_AARCH64:
      return "aarch64";
    case EM_RISCV:
      return "RISC-V";
    default:
      return "machine number " + std::to_string(machine);
  }
}

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

Error not_usable(const std::string& what) {
  return make_error(ErrorKind::unsupported, 0, "%s", what.c_str());
}

}  // namespace

ElfView ElfView::of_loaded(const dl_phdr_info& info) {
  ElfView view;
  const ElfW(Phdr)* dynamic = nullptr;
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info.dlpi_phdr[i];
    // Tables that are looked at live in readable segments only.
    if (header.p_type == PT_LOAD && (header.p_flags & PF_R) != 0)
      view.add_segment(
          {header.p_vaddr,
           {reinterpret_cast<const std::byte*>(info.dlpi_addr + header.p_vaddr), header.p_memsz}});
    if (header.p_type == PT_DYNAMIC) dynamic = &header;
  }
  if (dynamic != nullptr) view.read_dynamic(dynamic->p_vaddr, dynamic->p_memsz, info.dlpi_addr);
  return view;
}

Result<ElfView> ElfView::of_file(std::span<const std::byte> file) {
  ElfW(Ehdr) elf;
  if (file.size() < sizeof elf) return not_usable("is not an ELF file");
  memcpy(&elf, file.data(), sizeof elf);
  if (memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0) return not_usable("is not an ELF file");
  if (elf.e_ident[EI_CLASS] != ELFCLASS64 || elf.e_ident[EI_DATA] != ELFDATA2LSB)
    return not_usable("is not a 64-bit little-endian ELF file");
  if (elf.e_machine != kElfMachine)
    return not_usable("is built for " + machine_name(elf.e_machine) + ", this process runs on " +
                      machine_name(kElfMachine));
  if (elf.e_type != ET_DYN) return not_usable("is an ELF file, but not a shared library");

  ElfView view;
  ElfW(Phdr) dynamic{};
  for (size_t i = 0; i < elf.e_phnum; ++i) {
    ElfW(Phdr) header;
    const size_t at = elf.e_phoff + i * sizeof header;
    if (elf.e_phentsize != sizeof header || at > file.size() || file.size() - at < sizeof header)
      return not_usable("is a damaged ELF file: its program headers are cut off");
    memcpy(&header, file.data() + at, sizeof header);
    if (header.p_type == PT_DYNAMIC) dynamic = header;
    if (header.p_type != PT_LOAD) continue;
    if (header.p_offset > file.size() || file.size() - header.p_offset < header.p_filesz)
      return not_usable("is a damaged ELF file: a segment is cut off");
    view.add_segment({header.p_vaddr, file.subspan(header.p_offset, header.p_filesz)});
  }
  if (dynamic.p_memsz == 0) return not_usable("is an ELF file, but not a shared library");
  view.read_dynamic(dynamic.p_vaddr, dynamic.p_filesz, 0);
  return view;
}

void ElfView::read_dynamic(uintptr_t address, size_t size_bytes, uintptr_t load_bias) {
  // glibc writes the loaded addresses into the dynamic section of most images, but not into a
  // read-only one such as the vDSO's; an address below the load bias has not been relocated.
  const auto unbiased = [load_bias](uintptr_t value) {
    return value >= load_bias ? value - load_bias : value;
  };
  ElfW(Dyn) entry;
  for (size_t at = 0; at + sizeof entry <= size_bytes && read(address + at, entry);
       at += sizeof entry) {
    const uintptr_t pointer = unbiased(entry.d_un.d_ptr);
    switch (entry.d_tag) {
      case DT_NULL:
        return;
      case DT_SYMTAB:
        symbols_ = pointer;
        break;
      case DT_STRTAB:
        strings_ = pointer;
        break;
      case DT_HASH:
        sysv_hash_ = pointer;
        break;
      case DT_GNU_HASH:
        gnu_hash_ = pointer;
        break;
      case DT_RELA:
        relocations_ = pointer;
        break;
      case DT_RELASZ:
        relocations_bytes_ = entry.d_un.d_val;
        break;
      case DT_JMPREL:
        plt_relocations_ = pointer;
        break;
      case DT_PLTRELSZ:
        plt_relocations_bytes_ = entry.d_un.d_val;
        break;
      default:
        break;
    }
  }
}

const std::byte* ElfView::bytes_at(uintptr_t address, size_t size_bytes) const {
  for (const Segment& segment : std::span(segments_.data(), segment_count_)) {
    if (address < segment.address) continue;
    const size_t offset = address - segment.address;
    if (offset <= segment.bytes.size() && segment.bytes.size() - offset >= size_bytes)
      return segment.bytes.data() + offset;
  }
  return nullptr;
}

bool ElfView::is_named(const ElfW(Sym) & symbol, const char* name) const {
  const size_t length = strlen(name) + 1;
  const std::byte* text = bytes_at(strings_ + symbol.st_name, length);
  return text != nullptr && memcmp(text, name, length) == 0;
}

uintptr_t ElfView::definition_at(uint32_t index, const char* name) const {
  ElfW(Sym) symbol;
  const bool found = read(symbols_ + index * sizeof symbol, symbol) &&
                     symbol.st_shndx != SHN_UNDEF && ELF64_ST_BIND(symbol.st_info) != STB_LOCAL &&
                     is_named(symbol, name);
  return found ? symbol.st_value : 0;
}

uintptr_t ElfView::definition_by_gnu_hash(const char* name) const {
  struct {
    uint32_t buckets, first_symbol, bloom_words, bloom_shift;
  } head;
  if (!read(gnu_hash_, head) || head.buckets == 0) return 0;
  const uint32_t wanted = gnu_hash_of(name);
  const uintptr_t buckets = gnu_hash_ + sizeof head + head.bloom_words * sizeof(uintptr_t);
  const uintptr_t chains = buckets + head.buckets * sizeof(uint32_t);
  uint32_t index = 0;
  if (!read(buckets + (wanted % head.buckets) * sizeof index, index)) return 0;
  if (index < head.first_symbol) return 0;
  for (uint32_t hash = 0;; ++index) {
    // The last of a chain has bit 0 set; a table without one ends where its segment does.
    if (!read(chains + (index - head.first_symbol) * sizeof hash, hash)) return 0;
    const uintptr_t found = (hash | 1) == (wanted | 1) ? definition_at(index, name) : 0;
    if (found != 0) return found;
    if ((hash & 1) != 0) return 0;
  }
}

uintptr_t ElfView::definition_by_sysv_hash(const char* name) const {
  struct {
    uint32_t buckets, symbols;
  } head;
  if (!read(sysv_hash_, head) || head.buckets == 0) return 0;
  const uintptr_t buckets = sysv_hash_ + sizeof head;
  const uintptr_t chains = buckets + head.buckets * sizeof(uint32_t);
  uint32_t index = 0;
  if (!read(buckets + (sysv_hash_of(name) % head.buckets) * sizeof index, index)) return 0;
  for (uint32_t steps = 0; index != STN_UNDEF && steps < head.symbols; ++steps) {
    if (const uintptr_t found = definition_at(index, name); found != 0) return found;
    if (!read(chains + index * sizeof index, index)) return 0;
  }
  return 0;
}

uintptr_t ElfView::definition_of(const char* symbol) const {
  return gnu_hash_ != 0 ? definition_by_gnu_hash(symbol) : definition_by_sysv_hash(symbol);
}

void ElfView::append_relocations(uintptr_t table, size_t size_bytes, const char* symbol,
                                 std::vector<SymbolRelocation>& out) const {
  if (table == 0) return;
  ElfW(Rela) entry;
  for (size_t at = 0; at + sizeof entry <= size_bytes && read(table + at, entry);
       at += sizeof entry) {
    const uint64_t index = ELF64_R_SYM(entry.r_info);
    ElfW(Sym) wanted;
    if (index == STN_UNDEF || !read(symbols_ + index * sizeof wanted, wanted)) continue;
    if (!is_named(wanted, symbol)) continue;
    out.push_back({entry.r_offset, static_cast<uint32_t>(ELF64_R_TYPE(entry.r_info)),
                   entry.r_addend, wanted.st_shndx == SHN_UNDEF ? 0 : wanted.st_value});
  }
}

std::vector<SymbolRelocation> ElfView::relocations_of(const char* symbol) const {
  std::vector<SymbolRelocation> found;
  append_relocations(relocations_, relocations_bytes_, symbol, found);
  append_relocations(plt_relocations_, plt_relocations_bytes_, symbol, found);
  // Some linkers count the PLT's relocations into DT_RELASZ, so that both tables show them.
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.address < b.address; });
  found.erase(std::unique(found.begin(), found.end(),
                          [](const auto& a, const auto& b) { return a.address == b.address; }),
              found.end());
  return found;
}

}  // namespace amem
