// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <array>
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

/// Of a block of 16 words. Plain arrays and pointers: tests compile it without optimization.
inline void mix(uint32_t* a, uint32_t* b, uint32_t* c, uint32_t* d, uint32_t x, uint32_t y) {
  uint32_t turned;
  *a += *b + x;
  turned = *d ^ *a;
  *d = turned >> 16 | turned << 16;
  *c += *d;
  turned = *b ^ *c;
  *b = turned >> 12 | turned << 20;
  *a += *b + y;
  turned = *d ^ *a;
  *d = turned >> 8 | turned << 24;
  *c += *d;
  turned = *b ^ *c;
  *b = turned >> 7 | turned << 25;
}

inline Blake3Words compress(const Blake3Words& chaining, const uint32_t* message, uint32_t counter,
                            uint32_t flags) {
  constexpr unsigned char kPermutation[] = {2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8};
  uint32_t v[16] = {}, words[2][16];
  memcpy(v, chaining.data(), sizeof chaining);
  memcpy(v + 8, kIv.data(), sizeof kIv / 2);
  v[12] = counter;
  v[14] = kBlockBytes;
  v[15] = flags;
  memcpy(words[0], message, sizeof words[0]);
  for (int round = 0; round < 7; ++round) {
    const uint32_t* const m = words[round % 2];
    for (int i = 0; i < 4; ++i)
      mix(v + i, v + 4 + i, v + 8 + i, v + 12 + i, m[2 * i], m[2 * i + 1]);
    for (int i = 0; i < 4; ++i)
      mix(v + i, v + 4 + (i + 1) % 4, v + 8 + (i + 2) % 4, v + 12 + (i + 3) % 4, m[8 + 2 * i],
          m[9 + 2 * i]);
    for (int i = 0; i < 16; ++i) words[1 - round % 2][i] = m[kPermutation[i]];
  }
  Blake3Words result;
  for (size_t i = 0; i < 8; ++i) result[i] = v[i] ^ v[8 + i];
  return result;
}

/// The chaining value of a subtree of 2^n chunks, the first of which has this number; with kRoot,
/// the hash.
inline Blake3Words subtree(const unsigned char* bytes, size_t size_bytes, uint32_t number,
                           uint32_t root) {
  uint32_t message[16];
  if (size_bytes > kChunkBytes) {
    const size_t half = size_bytes / 2;
    const auto middle = number + static_cast<uint32_t>(half / kChunkBytes);
    const Blake3Words left = subtree(bytes, half, number, 0);
    const Blake3Words right = subtree(bytes + half, half, middle, 0);
    memcpy(message, left.data(), sizeof left);
    memcpy(message + left.size(), right.data(), sizeof right);
    return compress(kIv, message, 0, kParent | root);
  }
  Blake3Words chaining = kIv;
  for (size_t at = 0; at < kChunkBytes; at += kBlockBytes) {
    memcpy(message, bytes + at, kBlockBytes);
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
