// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstdint>

#include "interpose/image.h"

namespace amem {

/// Stores one word in an image's relocation slot or symbol table. Makes a read-only page writable
/// for the store, and restores its protection afterwards. False if the system refuses it
/// (mprotect(2)); nothing is stored then.
///
/// For use in visit_images(): the loader's list lock serializes stores. Threads that read the word
/// see the old or the new value.
bool store_word(const Image& image, uintptr_t* word, uintptr_t value);

}  // namespace amem
