// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "contents/retained.h"

#include <gtest/gtest.h>

#include <tuple>

namespace amem {
namespace {

constexpr size_t kPage = kSlotBytes;

Transfer hashed_transfer(std::vector<Piece> pieces, DeviceAddress address = 0, int device = 0) {
  Transfer transfer;
  transfer.device = device;
  transfer.address = address;
  transfer.pieces = std::move(pieces);
  transfer.hashes = std::make_shared<PageHashes>(8);
  return transfer;
}

TEST(FitsRetained, WhatHasACopyUnlessItIsLessThanHalfOfIt) {
  const std::vector<Piece> retained{{10, 10}, {30, 10}};
  EXPECT_TRUE(fits_retained(retained, retained));
  EXPECT_TRUE(fits_retained({{12, 4}, {17, 3}, {35, 5}}, retained));
  EXPECT_FALSE(fits_retained({{12, 4}, {35, 5}}, retained)) << "9 of 20";
  EXPECT_FALSE(fits_retained({}, retained));
  EXPECT_TRUE(fits_retained({}, {}));
  for (const Piece& other : {Piece{0, 20}, Piece{9, 11}, Piece{10, 11}, Piece{20, 10},
                             Piece{31, 10}, Piece{10, 30}, Piece{40, 20}})
    EXPECT_FALSE(fits_retained({other}, retained)) << other.offset_bytes;
  EXPECT_FALSE(fits_retained({{1, 1}}, {}));
}

TEST(HashedPages, AreWholePagesOfSeveralTransfersOfADevice) {
  constexpr DeviceAddress kFirst = 1 << 30, kSecond = DeviceAddress{2} << 30;
  std::vector<Transfer> transfers{
      hashed_transfer({{0, kPage}, {kPage + 5, 2 * kPage}, {5 * kPage, kPage - 1}}, kFirst),
      hashed_transfer({{0, kPage}}, 7, 1), hashed_transfer({{2 * kPage, kPage}}, kSecond),
      Transfer{}};

  const auto hashed = hash_together(&transfers);

  ASSERT_EQ(hashed.size(), 2u);
  EXPECT_EQ(hashed[0]->pages,
            (std::vector<DeviceAddress>{kFirst, kFirst + 2 * kPage, kSecond + 2 * kPage}));
  EXPECT_EQ(hashed[1]->pages, std::vector<DeviceAddress>{7});
  EXPECT_EQ(transfers[0].hashed, hashed[0]);
  EXPECT_EQ(transfers[2].hashed, hashed[0]);
  EXPECT_EQ(transfers[2].first_hashed, 2u);
  EXPECT_EQ(transfers[3].hashed, nullptr);
}

TEST(HashedPages, AreOfOneLaunchUnlessOneTransferHasMore) {
  const std::vector<Piece> half{{0, kPage * (Kernels::kMaxPagesAtOnce / 2 + 1)}},
      more{{0, kPage * (Kernels::kMaxPagesAtOnce + 1)}};
  std::vector<Transfer> transfers{hashed_transfer(half), hashed_transfer(half),
                                  hashed_transfer(more)};
  EXPECT_EQ(hash_together(&transfers).size(), 3u);
}

// --- Changed ranges

class ChangedRanges : public testing::Test {
 protected:
  using Plain = std::vector<std::tuple<size_t, const unsigned char*, size_t>>;

  /// The second extent begins inside of the third page.
  ChangedRanges() {
    transfer_.on_host = std::make_shared<const std::vector<HostExtent>>(
        std::vector<HostExtent>{{at(0), 5 * kPage / 2}, {at(8 * kPage), 3 * kPage}});
    transfer_.hashed = std::make_shared<HashedPages>();
  }

  unsigned char* at(size_t offset_bytes) { return host_.data() + offset_bytes; }
  Plain changed(std::vector<PageHash> hashes) {
    transfer_.hashed->hashes = std::move(hashes);
    Plain all;
    for (const CopyRange& range :
         changed_ranges(transfer_, copy_ranges(transfer_.pieces, *transfer_.on_host)))
      all.emplace_back(range.offset_bytes, range.on_host.base, range.on_host.size_bytes);
    return all;
  }

  std::vector<unsigned char> host_ = std::vector<unsigned char>(11 * kPage);
  /// Four pages, and a page that is in two pages of the backing.
  Transfer transfer_ = hashed_transfer({{0, 4 * kPage}, {5 * kPage + 1, kPage}});
};

TEST_F(ChangedRanges, AreOfPagesWhoseHashesDifferAndOfPartsOfPages) {
  const size_t end = 8 * kPage + 3 * kPage / 2;
  const std::tuple rest{5 * kPage + 1, at(end), kPage};
  EXPECT_EQ(changed({{1}, {2}, {3}, {4}}),
            (Plain{{0, at(0), 5 * kPage / 2}, {5 * kPage / 2, at(8 * kPage), 3 * kPage / 2}, rest}))
      << "no hash was known";
  EXPECT_EQ(transfer_.hashed->unchanged_bytes, 0u);
  EXPECT_EQ(changed({{1}, {2}, {3}, {4}}), Plain{rest});
  EXPECT_EQ(transfer_.hashed->unchanged_bytes, 4 * kPage);

  EXPECT_EQ(
      changed({{1}, {7}, {7}, {4}}),
      (Plain{{kPage, at(kPage), 3 * kPage / 2}, {5 * kPage / 2, at(8 * kPage), kPage / 2}, rest}));
  EXPECT_EQ((*transfer_.hashes)[2], PageHash{7});
}

TEST_F(ChangedRanges, AreAllWhereTheKernelCannotRunAndAtTheNextPause) {
  const Plain all = changed({{1}, {2}, {3}, {4}});
  EXPECT_EQ(changed({}), all);
  EXPECT_EQ(changed({{1}, {2}, {3}, {4}}), all);
  EXPECT_EQ(transfer_.hashed->unchanged_bytes, 0u);
}

}  // namespace
}  // namespace amem
