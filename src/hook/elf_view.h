// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <link.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/result.h"

namespace amem {

/// The machine this code is built for, as in ElfW(Ehdr)::e_machine.
#if defined(__x86_64__)
inline constexpr unsigned kElfMachine = EM_X86_64;
#elif defined(__aarch64__)
inline constexpr unsigned kElfMachine = EM_AARCH64;
#else
#error "amem knows the relocations of x86-64 and aarch64"
#endif

/// One relocation that refers to a symbol by name. Addresses are those of the file (load bias 0).
struct SymbolRelocation {
  uintptr_t address;
  uint32_t type;
  int64_t addend;
  /// Where the image itself defines the symbol, 0 when it only wants it.
  uintptr_t own_definition;
};

/// What the loader reads of an ELF image, whether it is loaded or still a file: its dynamic
/// section, by the program headers alone (section headers may be stripped).
///
/// Every read is held against the image's segments, so a damaged file gives no answer instead of a
/// fault. Does not own the bytes: valid while the image stays loaded or mapped. Immutable. Nothing
/// but relocations_of() allocates, because the door of dlopen may be entered from an allocator.
class ElfView {
 public:
  /// The bytes of one PT_LOAD segment and the address they have in the file's numbering.
  struct Segment {
    uintptr_t address;
    std::span<const std::byte> bytes;
  };

  /// An image in this process, at the addresses of `info` (dl_iterate_phdr(3)).
  static ElfView of_loaded(const dl_phdr_info& info);
  /// A whole file. Error (unsupported, no path in its text) when it is not a shared object for this
  /// machine.
  static Result<ElfView> of_file(std::span<const std::byte> file);

  /// Where `symbol` is, in the file's numbering, when other images can bind to it here; 0 when not.
  uintptr_t definition_of(const char* symbol) const;
  bool exports(const char* symbol) const { return definition_of(symbol) != 0; }
  /// All relocations of `symbol`, those of the PLT included, each address once.
  std::vector<SymbolRelocation> relocations_of(const char* symbol) const;

 private:
  /// More segments than linkers make (4 to 8); tables in a later one would not be found.
  static constexpr size_t kMaxSegments = 24;

  ElfView() = default;
  void add_segment(Segment segment) {
    if (segment_count_ < kMaxSegments) segments_[segment_count_++] = segment;
  }
  void read_dynamic(uintptr_t address, size_t size_bytes, uintptr_t load_bias);
  const std::byte* bytes_at(uintptr_t address, size_t size_bytes) const;
  template <typename T>
  bool read(uintptr_t address, T& out) const {
    const std::byte* bytes = bytes_at(address, sizeof(T));
    if (bytes != nullptr) memcpy(&out, bytes, sizeof(T));
    return bytes != nullptr;
  }
  bool is_named(const ElfW(Sym) & symbol, const char* name) const;
  uintptr_t definition_at(uint32_t index, const char* name) const;
  uintptr_t definition_by_gnu_hash(const char* name) const;
  uintptr_t definition_by_sysv_hash(const char* name) const;
  void append_relocations(uintptr_t table, size_t size_bytes, const char* symbol,
                          std::vector<SymbolRelocation>& out) const;

  std::array<Segment, kMaxSegments> segments_{};
  size_t segment_count_ = 0;
  uintptr_t symbols_ = 0, strings_ = 0, sysv_hash_ = 0, gnu_hash_ = 0;
  uintptr_t relocations_ = 0, plt_relocations_ = 0;
  size_t relocations_bytes_ = 0, plt_relocations_bytes_ = 0;
};

}  // namespace amem
