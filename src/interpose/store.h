// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstdint>

#include "interpose/image.h"

namespace amem {

/// Stores one word into an image's relocation slot or symbol table. A page that is not writable is
/// made writable for the store; afterwards it has its former protection. False when the system
/// refuses that (mprotect(2)): nothing is stored then.
///
/// For use in visit_images(): stores are serialized by the loader's list lock. Threads that read
/// the word meanwhile see the old or the new value.
bool store_word(const Image& image, uintptr_t* word, uintptr_t value);

}  // namespace amem
