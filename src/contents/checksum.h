// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace amem {

/// A checksum for contents on disk, not for protection from attackers. Each step of a lane is a
/// bijection of its word and of the sum before it, so that every change of one 8-byte word changes
/// the result. Four lanes, because the processor multiplies several numbers at a time. Pure.
inline uint64_t checksum_of(const unsigned char* bytes, size_t size_bytes) {
  constexpr uint64_t kFactor = 0x9E3779B97F4A7C15;  // odd: 2^64 divided by the golden ratio
  const auto step = [](uint64_t sum, uint64_t word) {
    sum = (sum ^ word) * kFactor;
    return sum ^ (sum >> 32);
  };
  uint64_t words[4], a = 1, b = 2, c = 3, d = 4;
  const auto add_words = [&](const unsigned char* from, size_t bytes_left) {
    memcpy(words, from, bytes_left);
    a = step(a, words[0]);
    b = step(b, words[1]);
    c = step(c, words[2]);
    d = step(d, words[3]);
  };
  size_t at = 0;
  for (; at + sizeof words <= size_bytes; at += sizeof words) add_words(bytes + at, sizeof words);
  memset(words, 0, sizeof words);
  add_words(bytes + at, size_bytes - at);
  return step(step(step(step(size_bytes, a), b), c), d);
}

}  // namespace amem
