// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstdint>

#include "interpose/image.h"
#include "interpose/relocation_types.h"

namespace amem {

/// A slot of an image: a word in which the loader stores the address of a function, so that the
/// image can call it, take its address or have it in a table (RelocationTypes).
struct Slot {
  uintptr_t* word;
  const char* symbol;
  /// The function. With lazy binding, before the first call: an address in the image's own PLT.
  uintptr_t function;
  uintptr_t addend;  ///< the difference between the word and the function's address
  bool is_unbound;   ///< the function is unknown; the next call binds the slot
};

/// The word in a slot. AddressSanitizer poisons its records of an image's globals, and slots are in
/// them (asan_globals.cpp, __asan_register_globals).
[[gnu::no_sanitize_address]] inline uintptr_t word_in(const uintptr_t* slot) {
  return __atomic_load_n(slot, __ATOMIC_ACQUIRE);
}

/// Calls `visit(const Slot&)` for each slot of the image that holds the address of a function.
/// Omits slots that the loader has not relocated yet, and relocations of other types. For use in
/// visit_images(), under its rules.
template <typename Visit>
void visit_slots(const Image& image, Visit&& visit) {
  for (const auto relocations : {image.view.data_relocations(), image.view.plt_relocations()}) {
    for (const ElfW(Rela) & relocation : relocations) {
      const auto type = ELF64_R_TYPE(relocation.r_info);
      if (type != kRelocations.jump_slot && type != kRelocations.glob_dat &&
          type != kRelocations.absolute)
        continue;
      const ElfW(Sym)* const symbol = image.view.symbol_of(relocation);
      if (symbol == nullptr) continue;
      Slot slot{image.view.slot_of(relocation), image.view.name_of(*symbol), 0, 0, false};
      if (type == kRelocations.absolute || kRelocations.all_add)
        slot.addend = static_cast<uintptr_t>(relocation.r_addend);
      slot.function = word_in(slot.word) - slot.addend;
      // Before relocation a slot holds a file address, or 0.
      if (slot.function < image.end - image.load_bias && image.load_bias != 0) continue;
      slot.is_unbound = type == kRelocations.jump_slot && image.contains(slot.function) &&
                        slot.function != image.view.own_address(*symbol);
      visit(slot);
    }
  }
}

/// Stores `function` in the slot. False if the system refuses to make its page writable.
bool set_slot(const Image& image, const Slot& slot, const void* function);

/// Stores one word in an image's relocation slot or symbol table. Makes a read-only page writable
/// for the store, and restores its protection afterwards. False if the system refuses it
/// (mprotect(2)); nothing is stored then.
///
/// For use in visit_images(): the loader's list lock serializes stores. Threads that read the word
/// see the old or the new value.
bool store_word(const Image& image, uintptr_t* word, uintptr_t value);

/// Stores `by` in each variable of the image that holds `word`. Searches only if they are the same.
/// True if a variable held it. Relocated words that are read-only now (RELRO) are not variables.
///
/// For use in visit_images(), as store_word().
bool replace_variables(const Image& image, uintptr_t word, uintptr_t by);

}  // namespace amem
