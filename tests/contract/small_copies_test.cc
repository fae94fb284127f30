// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// amem's kernel that copies pieces of 4 KiB: every word arrives where it belongs, and no other is
// touched.
#include <cstring>
#include <numeric>

#include "tests/contract/kernels_case.h"

namespace amem::contract {
namespace {

constexpr size_t kPieceWords = kSmallCopyBytes / sizeof(uint32_t);
/// How far headers of P2P buffers, most of the pieces, are apart at least.
constexpr size_t kSlotBytes = 64 << 10;
constexpr uint32_t kUntouched = 0xa5a5a5a5;

class SmallCopies : public KernelsCase {
 protected:
  using Words = std::vector<uint32_t>;

  void SetUp() override {
    KernelsCase::SetUp();
    function_ = function(kSmallCopiesKernel);
    fill_host(kUntouched);
  }

  CuResult queue(const std::vector<SmallCopy>& copies) {
    SmallCopyList list;
    std::copy(copies.begin(), copies.end(), list.entries);
    const CuResult result = launch(function_, copies.size(), kSmallCopiesThreads, &list);
    memset(&list, 0xff, sizeof list);  // it was read when it was launched
    return result;
  }
  void copy(const std::vector<SmallCopy>& copies) {
    ASSERT_EQ(kSuccess, queue(copies));
    ASSERT_EQ(kSuccess, driver().cuStreamSynchronize(other_));
  }

  void fill_host(uint32_t word) {
    std::fill_n(reinterpret_cast<uint32_t*>(host_), kHostBytes / sizeof word, word);
  }
  /// No two words are alike.
  static Words piece(uint32_t number) {
    Words words(kPieceWords);
    std::iota(words.begin(), words.end(), number * static_cast<uint32_t>(kPieceWords) + 1);
    return words;
  }
  Words on_host(size_t offset_bytes) const {
    Words words(kPieceWords);
    memcpy(words.data(), host_ + offset_bytes, kSmallCopyBytes);
    return words;
  }
  void write(CuDevicePtr address, const Words& words) {
    ASSERT_EQ(kSuccess,
              driver().cuMemcpyHtoD(address, words.data(), words.size() * sizeof words[0]));
    ASSERT_EQ(kSuccess, driver().cuCtxSynchronize());
  }
  Words read(CuDevicePtr address, size_t word_count) {
    Words words(word_count);
    EXPECT_EQ(kSuccess, driver().cuMemcpyDtoH(words.data(), address, word_count * sizeof words[0]));
    return words;
  }

  CuFunction function_ = nullptr;
};

TEST_F(SmallCopies, AreGatheredOnTheHost) {
  constexpr size_t kCount = kBytes / kSlotBytes;
  std::vector<SmallCopy> copies;
  for (uint32_t i = 0; i < kCount; ++i) {
    write(address_ + i * kSlotBytes, piece(i));
    copies.push_back({address_ + i * kSlotBytes, on_device(host_ + i * kSmallCopyBytes)});
  }

  copy(copies);

  for (uint32_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(piece(i), on_host(i * kSmallCopyBytes)) << i;
  }
  EXPECT_EQ(Words(kPieceWords, kUntouched), on_host(kCount * kSmallCopyBytes));
}

TEST_F(SmallCopies, ComeBackAndTouchNothingElse) {
  constexpr size_t kCount = kBytes / kSlotBytes;
  constexpr size_t kSlotWords = kSlotBytes / sizeof(uint32_t);
  fill(address_, kUntouched, kBytes);
  std::vector<SmallCopy> copies;
  for (uint32_t i = 0; i < kCount; ++i) {
    memcpy(host_ + i * kSmallCopyBytes, piece(i).data(), kSmallCopyBytes);
    copies.push_back({on_device(host_ + i * kSmallCopyBytes), address_ + i * kSlotBytes});
  }

  copy(copies);

  Words expected;
  for (uint32_t i = 0; i < kCount; ++i) {
    const Words words = piece(i);
    expected.insert(expected.end(), words.begin(), words.end());
    expected.resize((i + 1) * kSlotWords, kUntouched);
  }
  EXPECT_EQ(expected, read(address_, kWords));
}

TEST_F(SmallCopies, AsManyAsTheListHolds) {
  std::vector<SmallCopy> copies;
  for (uint32_t i = 0; i < kSmallCopiesMost; ++i) {
    write(address_ + i * kSmallCopyBytes, piece(i));
    // Backwards, so that no entry is its neighbour's.
    copies.push_back({address_ + i * kSmallCopyBytes,
                      on_device(host_ + (kSmallCopiesMost - 1 - i) * kSmallCopyBytes)});
  }

  copy(copies);

  for (uint32_t i = 0; i < kSmallCopiesMost; ++i) {
    ASSERT_EQ(piece(i), on_host((kSmallCopiesMost - 1 - i) * kSmallCopyBytes)) << i;
  }
  EXPECT_EQ(Words(kPieceWords, kUntouched), on_host(kSmallCopiesMost * kSmallCopyBytes));
}

// A block of the host pool begins inside of what was registered, at a multiple of 4096, and what
// lies in it before a piece may be shorter than one.
TEST_F(SmallCopies, FromAndToAnyMultipleOfSixteen) {
  for (const size_t offset_bytes : {size_t{16}, size_t{256}, kMb + 528}) {
    write(address_ + offset_bytes, piece(3));
    copy({{address_ + offset_bytes, on_device(host_ + offset_bytes + 16)}});
    EXPECT_EQ(piece(3), on_host(offset_bytes + 16)) << offset_bytes;
  }
}

TEST_F(SmallCopies, RunInTheOrderOfTheirStream) {
  memcpy(host_, piece(5).data(), kSmallCopyBytes);
  const CuDevicePtr from = on_device(host_), back = on_device(host_ + kMb);
  ASSERT_EQ(kSuccess, driver().cuMemsetD32Async(address_, 0, kWords, other_));
  ASSERT_EQ(kSuccess, queue({{from, address_}}));
  ASSERT_EQ(kSuccess, queue({{address_, back}}));
  ASSERT_EQ(kSuccess, driver().cuMemsetD32Async(address_, kUntouched, kWords, other_));
  ASSERT_EQ(kSuccess, driver().cuStreamSynchronize(other_));

  EXPECT_EQ(piece(5), on_host(kMb));
  EXPECT_EQ(Words(kPieceWords, kUntouched), read(address_, kPieceWords));
}

// A pause may come while the application captures work of its own.
TEST_F(SmallCopies, InARelaxedThreadLeaveACaptureAlone) {
  write(address_ + kMb, piece(7));
  begin(kCaptureGlobal);
  in_thread(kCaptureRelaxed, [&] { copy({{address_ + kMb, on_device(host_)}}); });
  end_well();

  EXPECT_EQ(piece(7), on_host(0));
}

}  // namespace
}  // namespace amem::contract
