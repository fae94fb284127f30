// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "interpose/slots.h"

#include "interpose/store.h"

namespace amem {

bool set_slot(const Image& image, const Slot& slot, const void* function) {
  return store_word(image, slot.word, reinterpret_cast<uintptr_t>(function) + slot.addend);
}

}  // namespace amem
