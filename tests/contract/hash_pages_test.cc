// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// amem's kernel that hashes pages: what it computes is BLAKE3, as the CPU computes it and as the
// authors of BLAKE3 have published it.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>

#include "contents/hash_ptx.h"
#include "contents/kernels_ptx.h"
#include "sim/blake3.h"
#include "tests/contract/kernels_case.h"

namespace amem::contract {
namespace {

constexpr size_t kPageBytes = size_t{64} << 10;
using Hash = sim::Blake3Words;

std::string hex(const Hash& hash) {
  std::string text;
  for (const uint32_t word : hash)
    for (int byte = 0; byte < 4; ++byte) {
      char digits[3];
      snprintf(digits, sizeof digits, "%02x", word >> (8 * byte) & 0xff);
      text += digits;
    }
  return text;
}

class HashPagesKernel : public KernelsCase {
 protected:
  using Pages = std::vector<CuDevicePtr>;
  static constexpr size_t kMaxPages = kHostBytes / (sizeof(CuDevicePtr) + sizeof(Hash));

  void SetUp() override {
    KernelsCase::SetUp();
    ASSERT_EQ(kSuccess, driver().cuModuleLoadData(&hashes_, kHashPtx));
    ASSERT_EQ(kSuccess, driver().cuModuleGetFunction(&function_, hashes_, kHashPagesKernel));
  }
  void TearDown() override {
    EXPECT_EQ(kSuccess, driver().cuModuleUnload(hashes_));
    KernelsCase::TearDown();
  }

  CuResult hash(CuDevicePtr pages, CuDevicePtr hashes, size_t page_count) {
    auto count = static_cast<unsigned>(page_count);
    void* parameters[] = {&pages, &hashes, &count};
    const unsigned blocks = (count + kHashedPagesPerBlock - 1) / kHashedPagesPerBlock;
    return driver().cuLaunchKernel(function_, blocks, 1, 1, kKernelThreads, 1, 1, 0, other_,
                                   parameters, nullptr);
  }

  /// The hashes are behind the table of pages in the pinned memory.
  std::vector<Hash> hashes_of(const Pages& pages) {
    EXPECT_LE(pages.size(), kMaxPages);
    memset(host_, 0xEE, kHostBytes);
    std::copy(pages.begin(), pages.end(), reinterpret_cast<CuDevicePtr*>(host_));
    auto* const results = reinterpret_cast<Hash*>(host_ + kMaxPages / 4 * 4 * sizeof pages[0]);
    EXPECT_EQ(kSuccess, hash(on_device(host_), on_device(results), pages.size()));
    EXPECT_EQ(kSuccess, driver().cuStreamSynchronize(other_));
    const unsigned char* const end = reinterpret_cast<unsigned char*>(results + pages.size());
    EXPECT_EQ(*end, 0xEE) << "nothing else is written";
    return {results, results + pages.size()};
  }

  static Pages pages_of(CuDevicePtr address, size_t page_count) {
    Pages pages(page_count);
    for (size_t i = 0; i < page_count; ++i) pages[i] = address + i * kPageBytes;
    return pages;
  }
  static std::vector<unsigned char> random_bytes(size_t size_bytes, uint32_t seed) {
    std::vector<unsigned char> bytes(size_bytes);
    for (unsigned char& byte : bytes) {
      seed = seed * 1664525u + 1013904223u;
      byte = static_cast<unsigned char>(seed >> 24);
    }
    return bytes;
  }
  void write(CuDevicePtr address, const std::vector<unsigned char>& bytes) {
    ASSERT_EQ(kSuccess, driver().cuMemcpyHtoDAsync(address, bytes.data(), bytes.size(), other_));
    ASSERT_EQ(kSuccess, driver().cuStreamSynchronize(other_));
  }

  CuModule hashes_ = nullptr;
  CuFunction function_ = nullptr;
};

// Of github.com/BLAKE3-team/BLAKE3, test_vectors.json: the bytes are i % 251.
TEST_F(HashPagesKernel, OnTheCpuIsTheOneThatIsPublished) {
  std::vector<unsigned char> bytes(kPageBytes);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i % 251);
  EXPECT_EQ(hex(sim::blake3_of(bytes.data(), 1024)),
            "42214739f095a406f3fc83deb889744ac00df831c10daa55189b5d121c855af7");
  const char* const of_page = "68d647e619a930e7b1082f74f334b0c65a315725569bdc123f0ee11881717bfe";
  EXPECT_EQ(hex(sim::blake3_of(bytes.data(), bytes.size())), of_page);
  write(address_, bytes);
  EXPECT_EQ(hex(hashes_of({address_}).front()), of_page);
}

// The last block has one, two, three or four pages.
TEST_F(HashPagesKernel, OnTheGpuIsTheSame) {
  constexpr size_t kPages = 11;
  const CuDevicePtr memory = allocate(2 * kMb);
  for (const uint32_t seed : {1u, 2u, 3u}) {
    const std::vector<unsigned char> bytes = random_bytes(kPages * kPageBytes, seed);
    write(memory, bytes);
    for (size_t count = 1; count <= kPages; ++count) {
      const std::vector<Hash> found = hashes_of(pages_of(memory, count));
      for (size_t i = 0; i < count; ++i)
        ASSERT_EQ(hex(found[i]), hex(sim::blake3_of(&bytes[i * kPageBytes], kPageBytes)))
            << "page " << i << " of " << count;
    }
  }
  free(memory, 2 * kMb);
}

TEST_F(HashPagesKernel, OneByteAnywhereChangesIt) {
  constexpr size_t kChunks = kPageBytes / 1024, kPages = 4 * kChunks;
  const CuDevicePtr memory = allocate(kPages * kPageBytes);
  fill(memory, 0, kPages * kPageBytes);
  const Hash of_zeros = hashes_of({memory}).front();
  const Pages pages = pages_of(memory, kPages);
  std::vector<unsigned char> one{1};
  for (size_t i = 0; i < kPages; ++i)
    write(pages[i] + i / 4 * 1024 + std::array<size_t, 4>{0, 63, 64, 1023}[i % 4], one);
  std::vector<Hash> found = hashes_of(pages);
  found.push_back(of_zeros);
  std::sort(found.begin(), found.end());
  EXPECT_EQ(std::adjacent_find(found.begin(), found.end()), found.end());
  free(memory, kPages * kPageBytes);
}

TEST_F(HashPagesKernel, PagesMayLieAnywhereInAnyOrderAndMoreThanOnce) {
  constexpr size_t kPages = 32, kAsked = 300;
  const CuDevicePtr memory = allocate(4 * kMb);
  const std::vector<unsigned char> bytes = random_bytes((kPages + 1) * kPageBytes, 7);
  write(memory, bytes);
  Pages asked;
  std::vector<size_t> offsets;
  for (uint32_t random = 1; asked.size() < kAsked; random = random * 1664525u + 1013904223u) {
    // Few of them, of which the CPU computes each only once.
    offsets.push_back((random >> 16) % kPages * kPageBytes + (random >> 28) % 2 * 16);
    asked.push_back(memory + offsets.back());
  }
  std::map<size_t, Hash> known;
  const std::vector<Hash> found = hashes_of(asked);
  for (size_t i = 0; i < kAsked; ++i) {
    const auto [at, is_new] = known.try_emplace(offsets[i]);
    if (is_new) at->second = sim::blake3_of(&bytes[offsets[i]], kPageBytes);
    ASSERT_EQ(hex(found[i]), hex(at->second)) << i;
  }
  free(memory, 4 * kMb);
}

TEST_F(HashPagesKernel, WorkOfTheStreamThatCameBeforeIsSeen) {
  std::vector<unsigned char> bytes(kPageBytes);
  for (const unsigned value : {1u, 2u}) {
    ASSERT_EQ(kSuccess, driver().cuMemsetD32Async(address_, value * 0x01010101u,
                                                  kPageBytes / sizeof(unsigned), other_));
    memset(bytes.data(), static_cast<int>(value), bytes.size());
    EXPECT_EQ(hashes_of({address_}).front(), sim::blake3_of(bytes.data(), bytes.size()));
  }
}

// docs/decisions/0018-retained-copies.md: on a GPU, the report says the rate.
TEST_F(HashPagesKernel, ManyPagesAreHashedInOneLaunch) {
  constexpr size_t kBytesOfAll = 256 * kMb, kAsked = kMaxPages / 4 * 4;
  const CuDevicePtr memory = allocate(kBytesOfAll);
  fill(memory, 0, kBytesOfAll);
  Pages asked;
  for (size_t i = 0; i < kAsked; ++i) asked.push_back(memory + i * kPageBytes % kBytesOfAll);
  hashes_of(asked);  // the kernel is loaded
  const auto began = std::chrono::steady_clock::now();
  const std::vector<Hash> found = hashes_of(asked);
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - began;
  EXPECT_EQ(std::count(found.begin(), found.end(), found.front()), static_cast<long>(found.size()));
  RecordProperty(
      "gigabytes_per_second",
      std::to_string(static_cast<double>(asked.size() * kPageBytes) / 1e9 / passed.count()));
  free(memory, kBytesOfAll);
}

}  // namespace
}  // namespace amem::contract
