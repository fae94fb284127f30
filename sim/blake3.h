// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

/// BLAKE3 on the CPU, for inputs of 2^n chunks: what amem_hash_pages computes
/// (contents/hash_ptx.h). Written from the specification (BLAKE3, sections 2.1 to 2.5). Pure.
namespace amem::sim {

using Blake3Words = std::array<uint32_t, 8>;

namespace blake3 {

constexpr size_t kChunkBytes = 1024, kBlockBytes = 64;
constexpr uint32_t kChunkStart = 1, kChunkEnd = 2, kParent = 4, kRoot = 8;
constexpr Blake3Words kIv{0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A,
                          0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19};

inline Blake3Words compress(const Blake3Words& chaining, std::array<uint32_t, 16> message,
                            uint32_t counter, uint32_t flags) {
  constexpr size_t kPermutation[] = {2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8};
  std::array<uint32_t, 16> v{};
  for (size_t i = 0; i < 8; ++i) v[i] = chaining[i];
  for (size_t i = 0; i < 4; ++i) v[8 + i] = kIv[i];
  v[12] = counter;
  v[14] = kBlockBytes;
  v[15] = flags;
  const auto mix = [&](size_t a, size_t b, size_t c, size_t d, uint32_t x, uint32_t y) {
    v[a] += v[b] + x;
    v[d] = std::rotr(v[d] ^ v[a], 16);
    v[c] += v[d];
    v[b] = std::rotr(v[b] ^ v[c], 12);
    v[a] += v[b] + y;
    v[d] = std::rotr(v[d] ^ v[a], 8);
    v[c] += v[d];
    v[b] = std::rotr(v[b] ^ v[c], 7);
  };
  for (int round = 0; round < 7; ++round) {
    for (size_t i = 0; i < 4; ++i) mix(i, 4 + i, 8 + i, 12 + i, message[2 * i], message[2 * i + 1]);
    for (size_t i = 0; i < 4; ++i)
      mix(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4, message[8 + 2 * i],
          message[9 + 2 * i]);
    const std::array<uint32_t, 16> before = message;
    for (size_t i = 0; i < 16; ++i) message[i] = before[kPermutation[i]];
  }
  Blake3Words result;
  for (size_t i = 0; i < 8; ++i) result[i] = v[i] ^ v[8 + i];
  return result;
}

/// The chaining value of a subtree of 2^n chunks, the first of which has this number; with kRoot,
/// the hash.
inline Blake3Words subtree(const unsigned char* bytes, size_t size_bytes, uint32_t number,
                           uint32_t root) {
  std::array<uint32_t, 16> message;
  if (size_bytes > kChunkBytes) {
    const size_t half = size_bytes / 2;
    const auto middle = number + static_cast<uint32_t>(half / kChunkBytes);
    const Blake3Words left = subtree(bytes, half, number, 0);
    const Blake3Words right = subtree(bytes + half, half, middle, 0);
    memcpy(message.data(), left.data(), sizeof left);
    memcpy(message.data() + left.size(), right.data(), sizeof right);
    return compress(kIv, message, 0, kParent | root);
  }
  Blake3Words chaining = kIv;
  for (size_t at = 0; at < kChunkBytes; at += kBlockBytes) {
    memcpy(message.data(), bytes + at, kBlockBytes);
    const bool is_last = at + kBlockBytes == kChunkBytes;
    chaining = compress(chaining, message, number,
                        (at == 0 ? kChunkStart : 0) | (is_last ? kChunkEnd | root : 0));
  }
  return chaining;
}

}  // namespace blake3

/// REQUIRES: the size is 1 KiB times a power of two.
inline Blake3Words blake3_of(const void* bytes, size_t size_bytes) {
  return blake3::subtree(static_cast<const unsigned char*>(bytes), size_bytes, 0, blake3::kRoot);
}

}  // namespace amem::sim
