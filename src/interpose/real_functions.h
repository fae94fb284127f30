// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

#include "interpose/image.h"

namespace amem {

/// The names in a table of functions.
template <typename Row, size_t kRows>
constexpr std::array<const char*, kRows> names_of(const Row (&rows)[kRows]) {
  std::array<const char*, kRows> names{};
  for (size_t i = 0; i < kRows; ++i) names[i] = rows[i].name;
  return names;
}

/// The functions behind the entries of NamedFunctions, by their place in its names. Libraries of a
/// process may be linked with different definitions of the same names, such as libcudart.so.12 and
/// .13: each has a number, and an entry of its own. Constant-initialized; thread-safe.
template <size_t kFunctions, size_t kMaxDefinitions = 1>
class RealFunctions {
 public:
  static constexpr size_t kCount = kFunctions, kDefinitions = kMaxDefinitions;

  constexpr explicit RealFunctions(const std::array<const char*, kFunctions>& names)
      : names_(names) {}

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

  /// Sets the only definition.
  void set(size_t which, uintptr_t function) { words_[0][which] = function; }

  uintptr_t address(size_t which, size_t definition = 0) {
    std::atomic<uintptr_t>& word = words_[definition][which];
    if (word.load() == 0) word = first_definition(names_[which]);
    return word.load();
  }

  /// Calls a function. The arguments must have exactly the types of its parameters: a narrower type
  /// or a literal in place of a pointer would call it wrongly.
  template <size_t kDefinition = 0, typename Return = int, typename... Parameters>
  Return call(size_t which, Parameters... parameters) {
    return reinterpret_cast<Return (*)(Parameters...)>(address(which, kDefinition))(parameters...);
  }

 private:
  const std::array<const char*, kFunctions>& names_;
  std::array<std::array<std::atomic<uintptr_t>, kFunctions>, kDefinitions> words_{};
};

/// NamedFunctions::entry for the functions of `kReal`, for all images. The entry of a function is
/// `kEntries.operator()<which, definition>()`. The table is constant-initialized: no lock.
template <auto& kReal, auto& kEntries>
const void* entry_of(size_t which, uintptr_t function, const Image* = nullptr) {
  using Real = std::remove_reference_t<decltype(kReal)>;
  const auto entry_at = []<size_t... kAll>(size_t index, std::index_sequence<kAll...>) {
    static const std::array<const void*, sizeof...(kAll)> entries{reinterpret_cast<const void*>(
        kEntries.template operator()<kAll % Real::kCount, kAll / Real::kCount>())...};
    return entries[index];
  };
  const std::optional<size_t> definition = kReal.definition_of(which, function);
  if (!definition.has_value()) return nullptr;
  constexpr std::make_index_sequence<Real::kCount * Real::kDefinitions> kAll;
  return entry_at(*definition * Real::kCount + which, kAll);
}

}  // namespace amem
