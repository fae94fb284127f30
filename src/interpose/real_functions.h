// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "interpose/image.h"

namespace amem {

/// The functions behind the entries of NamedFunctions. Libraries of a process may be linked with
/// different definitions of the same names, such as libcudart.so.12 and .13: each has a number, and
/// an entry of its own. Constant-initialized; thread-safe.
template <size_t kFunctions, size_t kDefinitions = 1>
class RealFunctions {
 public:
  constexpr explicit RealFunctions(const std::array<const char*, kFunctions>& names)
      : names_(names) {}

  constexpr std::span<const char* const> names() const { return names_; }

  /// The number of the definition whose function `which` this is; nullopt beyond the last, which is
  /// not intercepted. `function`: 0 for a slot that is not bound, which gets the first definition.
  /// May be called in visit_images().
  std::optional<size_t> definition_of(size_t which, uintptr_t function) {
    for (size_t i = 0; i < kDefinitions; ++i) {
      uintptr_t known = 0;
      if (function == 0 || words_[i][which].compare_exchange_strong(known, function) ||
          known == function)
        return i;
    }
    return std::nullopt;
  }

  uintptr_t address(size_t which, size_t definition = 0) {
    std::atomic<uintptr_t>& word = words_[definition][which];
    if (word.load() == 0) word = first_definition(names_[which]);
    return word.load();
  }

  template <typename Function>
  Function* get(size_t which, size_t definition = 0) {
    return reinterpret_cast<Function*>(address(which, definition));
  }

 private:
  const std::array<const char*, kFunctions>& names_;
  std::array<std::array<std::atomic<uintptr_t>, kFunctions>, kDefinitions> words_{};
};

}  // namespace amem
