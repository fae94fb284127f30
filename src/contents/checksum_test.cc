// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "contents/checksum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

namespace amem {
namespace {

constexpr size_t kWord = sizeof(uint64_t);

std::vector<unsigned char> random_bytes(size_t count) {
  std::vector<unsigned char> bytes(count);
  unsigned random = 1;
  for (unsigned char& byte : bytes)
    byte = static_cast<unsigned char>((random = random * 1664525u + 1013904223u) >> 24);
  return bytes;
}

TEST(Checksum, SeesEveryBit) {
  for (const size_t size : {1, 7, 8, 31, 32, 33, 100, 4096}) {
    for (const bool is_zero : {false, true}) {
      std::vector<unsigned char> bytes = random_bytes(size);
      if (is_zero) std::fill(bytes.begin(), bytes.end(), 0);
      std::set<uint64_t> sums{checksum_of(bytes.data(), size)};
      for (size_t bit = 0; bit < 8 * size; ++bit) {
        bytes[bit / 8] ^= static_cast<unsigned char>(1 << bit % 8);
        EXPECT_TRUE(sums.insert(checksum_of(bytes.data(), size)).second) << bit << " of " << size;
        bytes[bit / 8] ^= static_cast<unsigned char>(1 << bit % 8);
      }
    }
  }
}

TEST(Checksum, SeesWordsThatHaveChangedPlaces) {
  constexpr size_t kWords = 64;
  std::vector<unsigned char> bytes = random_bytes(kWords * kWord);
  const auto swap = [&](size_t one, size_t other) {
    std::swap_ranges(&bytes[one * kWord], &bytes[one * kWord] + kWord, &bytes[other * kWord]);
  };
  std::set<uint64_t> sums{checksum_of(bytes.data(), bytes.size())};
  for (size_t one = 0; one < kWords; ++one)
    for (size_t other = one + 1; other < kWords; ++other) {
      swap(one, other);
      EXPECT_TRUE(sums.insert(checksum_of(bytes.data(), bytes.size())).second);
      swap(one, other);
    }
}

TEST(Checksum, SeesTheSizeOfZeros) {
  const std::vector<unsigned char> zeros(200);
  std::set<uint64_t> sums;
  for (size_t size = 0; size <= zeros.size(); ++size)
    EXPECT_TRUE(sums.insert(checksum_of(zeros.data(), size)).second) << size;
}

TEST(Checksum, DependsOnNoAlignment) {
  const std::vector<unsigned char> bytes = random_bytes(1000);
  const uint64_t wanted = checksum_of(bytes.data(), bytes.size());
  for (size_t shift = 1; shift < 16; ++shift) {
    std::vector<unsigned char> moved(bytes.size() + shift);
    std::copy(bytes.begin(), bytes.end(), moved.begin() + static_cast<long>(shift));
    EXPECT_EQ(checksum_of(&moved[shift], bytes.size()), wanted);
  }
}

}  // namespace
}  // namespace amem
