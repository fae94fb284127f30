// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// amem's kernel that copies headers: every word arrives where it belongs, and no other is touched.
#include <cstring>
#include <numeric>

#include "tests/contract/kernels_case.h"

namespace amem::contract {
namespace {

constexpr size_t kHeaderWords = kCopyHeadersBytes / sizeof(uint32_t);
/// How far headers of P2P buffers are apart at least.
constexpr size_t kSlotBytes = 64 << 10;
constexpr uint32_t kUntouched = 0xa5a5a5a5;

class CopyHeaders : public KernelsCase {
 protected:
  using Words = std::vector<uint32_t>;

  void SetUp() override {
    KernelsCase::SetUp();
    function_ = function(kCopyHeadersKernel);
    fill_host(kUntouched);
  }

  CuResult queue(const std::vector<HeaderCopyEntry>& copies) {
    HeaderCopyList list;
    std::copy(copies.begin(), copies.end(), list.entries);
    const CuResult result = launch(function_, copies.size(), kCopyHeadersThreads, &list);
    memset(&list, 0xff, sizeof list);  // it was read when it was launched
    return result;
  }
  void copy(const std::vector<HeaderCopyEntry>& copies) {
    ASSERT_EQ(kSuccess, queue(copies));
    ASSERT_EQ(kSuccess, driver().cuStreamSynchronize(other_));
  }

  void fill_host(uint32_t word) {
    std::fill_n(reinterpret_cast<uint32_t*>(host_), kHostBytes / sizeof word, word);
  }
  /// No two words are alike.
  static Words header(uint32_t number) {
    Words words(kHeaderWords);
    std::iota(words.begin(), words.end(), number * static_cast<uint32_t>(kHeaderWords) + 1);
    return words;
  }
  Words on_host(size_t offset_bytes) const {
    Words words(kHeaderWords);
    memcpy(words.data(), host_ + offset_bytes, kCopyHeadersBytes);
    return words;
  }
  void write(CuDevicePtr address, const Words& words) {
    ASSERT_EQ(kSuccess, driver().cuMemcpyHtoD(address, words.data(), words.size() * sizeof words[0]));
    ASSERT_EQ(kSuccess, driver().cuCtxSynchronize());
  }
  Words read(CuDevicePtr address, size_t word_count) {
    Words words(word_count);
    EXPECT_EQ(kSuccess, driver().cuMemcpyDtoH(words.data(), address, word_count * sizeof words[0]));
    return words;
  }

  CuFunction function_ = nullptr;
};

TEST_F(CopyHeaders, GathersThemOnTheHost) {
  constexpr size_t kCount = kBytes / kSlotBytes;
  std::vector<HeaderCopyEntry> copies;
  for (uint32_t i = 0; i < kCount; ++i) {
    write(address_ + i * kSlotBytes, header(i));
    copies.push_back({address_ + i * kSlotBytes, on_device(host_ + i * kCopyHeadersBytes)});
  }

  copy(copies);

  for (uint32_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(header(i), on_host(i * kCopyHeadersBytes)) << i;
  }
  EXPECT_EQ(Words(kHeaderWords, kUntouched), on_host(kCount * kCopyHeadersBytes));
}

TEST_F(CopyHeaders, PutsThemBackAndTouchesNothingElse) {
  constexpr size_t kCount = kBytes / kSlotBytes;
  constexpr size_t kSlotWords = kSlotBytes / sizeof(uint32_t);
  fill(address_, kUntouched, kBytes);
  std::vector<HeaderCopyEntry> copies;
  for (uint32_t i = 0; i < kCount; ++i) {
    memcpy(host_ + i * kCopyHeadersBytes, header(i).data(), kCopyHeadersBytes);
    copies.push_back({on_device(host_ + i * kCopyHeadersBytes), address_ + i * kSlotBytes});
  }

  copy(copies);

  Words expected;
  for (uint32_t i = 0; i < kCount; ++i) {
    const Words words = header(i);
    expected.insert(expected.end(), words.begin(), words.end());
    expected.resize((i + 1) * kSlotWords, kUntouched);
  }
  EXPECT_EQ(expected, read(address_, kWords));
}

TEST_F(CopyHeaders, AsManyAsTheListHolds) {
  std::vector<HeaderCopyEntry> copies;
  for (uint32_t i = 0; i < kCopyHeadersMost; ++i) {
    write(address_ + i * kCopyHeadersBytes, header(i));
    // Backwards, so that no entry is its neighbour's.
    copies.push_back({address_ + i * kCopyHeadersBytes,
                      on_device(host_ + (kCopyHeadersMost - 1 - i) * kCopyHeadersBytes)});
  }

  copy(copies);

  for (uint32_t i = 0; i < kCopyHeadersMost; ++i) {
    ASSERT_EQ(header(i), on_host((kCopyHeadersMost - 1 - i) * kCopyHeadersBytes)) << i;
  }
  EXPECT_EQ(Words(kHeaderWords, kUntouched), on_host(kCopyHeadersMost * kCopyHeadersBytes));
}

// A block of the host store begins inside of what was registered, at a multiple of 256, and what
// lies in it before a header may be shorter than a page.
TEST_F(CopyHeaders, FromAndToAnyMultipleOfSixteen) {
  for (const size_t offset_bytes : {size_t{16}, size_t{256}, kMb + 528}) {
    write(address_ + offset_bytes, header(3));
    copy({{address_ + offset_bytes, on_device(host_ + offset_bytes + 16)}});
    EXPECT_EQ(header(3), on_host(offset_bytes + 16)) << offset_bytes;
  }
}

TEST_F(CopyHeaders, RunsInTheOrderOfItsStream) {
  memcpy(host_, header(5).data(), kCopyHeadersBytes);
  const CuDevicePtr from = on_device(host_), back = on_device(host_ + kMb);
  ASSERT_EQ(kSuccess, driver().cuMemsetD32Async(address_, 0, kWords, other_));
  ASSERT_EQ(kSuccess, queue({{from, address_}}));
  ASSERT_EQ(kSuccess, queue({{address_, back}}));
  ASSERT_EQ(kSuccess, driver().cuMemsetD32Async(address_, kUntouched, kWords, other_));
  ASSERT_EQ(kSuccess, driver().cuStreamSynchronize(other_));

  EXPECT_EQ(header(5), on_host(kMb));
  EXPECT_EQ(Words(kHeaderWords, kUntouched), read(address_, kHeaderWords));
}

// A pause may come while the application captures work of its own.
TEST_F(CopyHeaders, InARelaxedThreadLeaveACaptureAlone) {
  write(address_ + kMb, header(7));
  begin(kCaptureGlobal);
  in_thread(kCaptureRelaxed, [&] { copy({{address_ + kMb, on_device(host_)}}); });
  end_well();

  EXPECT_EQ(header(7), on_host(0));
}

}  // namespace
}  // namespace amem::contract
