// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "interpose/image.h"

namespace amem {

/// The images that scans have examined. An image is identified by its load bias and its program
/// headers. After a removal the loader may load another image at the same place, so a removal
/// clears all entries.
///
/// Needs the loader's list lock, and therefore does not allocate. Images that do not fit are not
/// patched.
class SeenImages {
 public:
  struct Entry {
    uintptr_t load_bias = 0;
    const void* headers = nullptr;
    bool is_target = false;
    bool is_patched = false;
    bool was_unbound = false;  ///< not all of its slots were bound at a scan
  };

  /// `removed`: the current ImageChanges::removed.
  void forget_after_removal(unsigned long long removed) {
    if (removed == removed_) return;
    removed_ = removed;
    entries_ = {};
  }
  /// nullptr if the image was not seen or did not fit.
  Entry* find(const Image& image) {
    Entry* const entry = place_of(image);
    return entry != nullptr && entry->headers != nullptr ? entry : nullptr;
  }
  /// False if it does not fit.
  bool add(const Image& image, bool is_target) {
    Entry* const entry = place_of(image);
    if (entry != nullptr) *entry = {image.load_bias, image.headers.data(), is_target};
    return entry != nullptr;
  }

 private:
  static constexpr size_t kCapacity = 4096;
  static constexpr size_t kMostProbes = 64;

  /// The entry of the image, or a free one for it; nullptr if there is neither.
  Entry* place_of(const Image& image) {
    const void* const headers = image.headers.data();
    const size_t first = reinterpret_cast<uintptr_t>(headers) / 4096 * 0x9E3779B1u;
    for (size_t probe = 0; probe < kMostProbes; ++probe) {
      Entry& entry = entries_[(first + probe) % kCapacity];
      if (entry.headers == nullptr) return &entry;
      if (entry.headers == headers && entry.load_bias == image.load_bias) return &entry;
    }
    return nullptr;
  }

  std::array<Entry, kCapacity> entries_{};
  unsigned long long removed_ = 0;
};

}  // namespace amem
