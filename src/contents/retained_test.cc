// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "contents/retained.h"

#include <gtest/gtest.h>

namespace amem {
namespace {

constexpr size_t kPage = kHashedPageBytes;

unsigned char g_host[16];
unsigned char* at(size_t offset_bytes) { return g_host + offset_bytes; }  // never read

std::vector<std::tuple<size_t, unsigned char*, size_t>> plain(
    const std::vector<CopyRange>& ranges) {
  std::vector<std::tuple<size_t, unsigned char*, size_t>> all;
  for (const CopyRange& range : ranges)
    all.emplace_back(range.offset_bytes, range.on_host.base, range.on_host.size_bytes);
  return all;
}
using Plain = decltype(plain({}));

HostBlock block(std::vector<HostExtent> extents) {
  return std::make_shared<const std::vector<HostExtent>>(std::move(extents));
}

TEST(RetainedPieces, WithoutRangesLeavesWhatTheyDoNotHave) {
  const std::vector<CopyRange> ranges{{10, {at(0), 10}}, {30, {at(0), 10}}, {40, {at(0), 5}}};
  using Pieces = std::vector<Piece>;
  EXPECT_EQ(without({{0, 5}, {60, 5}}, ranges), (Pieces{{0, 5}, {60, 5}}));
  EXPECT_EQ(without({{0, 50}}, ranges), (Pieces{{0, 10}, {20, 10}, {45, 5}}));
  EXPECT_EQ(without({{12, 3}, {31, 14}}, ranges), Pieces{});
  EXPECT_EQ(without({{5, 10}, {15, 20}}, ranges), (Pieces{{5, 5}, {20, 10}}));
  EXPECT_EQ(without({{5, 10}}, {}), (Pieces{{5, 10}}));
}

TEST(RetainedPieces, PartsOfRangesInPiecesHaveTheirPlaceOnTheHost) {
  const std::vector<CopyRange> ranges{{10, {at(0), 10}}, {30, {at(3), 10}}};
  EXPECT_EQ(plain(within(ranges, {{0, 100}})), plain(ranges));
  EXPECT_EQ(plain(within(ranges, {{12, 3}, {16, 18}, {39, 9}})),
            (Plain{{12, at(2), 3}, {16, at(6), 4}, {30, at(3), 4}, {39, at(12), 1}}));
  EXPECT_TRUE(within(ranges, {{0, 10}, {20, 10}, {40, 1}}).empty());
}

TEST(RetainedContents, ContainWhatIsNewAtItsPlaceAndKeepTheMemoryOfBoth) {
  HostBlock old_block = block({{at(0), 4}, {at(8), 4}}), new_block = block({{at(12), 3}});
  const std::weak_ptr<const std::vector<HostExtent>> owners[] = {old_block, new_block};
  Transfer transfer;
  transfer.live = {{0, 2}, {4, 20}};
  transfer.retained = copy_ranges({{0, 2}, {10, 6}}, *old_block);
  transfer.retained_block = std::exchange(old_block, nullptr);
  transfer.pieces = {{4, 3}};
  transfer.on_host = std::exchange(new_block, nullptr);

  auto [on_host, pieces] = add_to_retained(&transfer);

  EXPECT_EQ(pieces, (std::vector<Piece>{{0, 2}, {4, 3}, {10, 6}}));
  EXPECT_EQ(plain(copy_ranges(pieces, *on_host)),
            (Plain{{0, at(0), 2}, {4, at(12), 3}, {10, at(2), 2}, {12, at(8), 4}}));
  EXPECT_EQ(transfer.pieces, pieces);
  transfer = {};
  for (const auto& owner : owners) EXPECT_FALSE(owner.expired());
  on_host = nullptr;
  for (const auto& owner : owners) EXPECT_TRUE(owner.expired());
}

TEST(RetainedContents, BytesThatAreNotLiveStayAsTheyAre) {
  Transfer transfer;
  transfer.live = {{2, 3}, {8, 2}};
  transfer.retained_block = block({{at(0), 10}});
  transfer.retained = copy_ranges({{0, 10}}, *transfer.retained_block);

  const auto [on_host, pieces] = add_to_retained(&transfer);

  EXPECT_EQ(pieces, (std::vector<Piece>{{0, 10}}));
  EXPECT_EQ(transfer.pieces, transfer.live);
  EXPECT_EQ(plain(copy_ranges(transfer.pieces, *transfer.on_host)),
            (Plain{{2, at(2), 3}, {8, at(8), 2}}));
}

// --- Hashes

Transfer hashed_transfer(std::vector<Piece> pieces, DeviceAddress address = 0, int device = 0) {
  Transfer transfer;
  transfer.device = device;
  transfer.address = address;
  transfer.pieces = std::move(pieces);
  transfer.hashes = std::make_shared<PageHashes>(8);
  return transfer;
}

TEST(HashedPages, AreWholePagesOfSeveralTransfersOfADevice) {
  std::vector<Transfer> transfers{hashed_transfer({{0, kPage}, {kPage + 5, 2 * kPage}}, 1 << 30),
                                  hashed_transfer({{0, kPage}}, 7, 1),
                                  hashed_transfer({{2 * kPage, kPage}}, 2 << 30), Transfer{}};

  const auto hashed = hash_together(&transfers);

  ASSERT_EQ(hashed.size(), 2u);
  constexpr DeviceAddress kFirst = 1 << 30, kSecond = DeviceAddress{2} << 30;
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

TEST(ChangedPieces, AreThosePagesWhoseHashesDifferAndWhatIsNoWholePage) {
  const std::vector<Piece> all{{0, 4 * kPage}, {5 * kPage + 1, kPage}};
  Transfer transfer = hashed_transfer(all);
  transfer.hashed = std::make_shared<HashedPages>();
  transfer.hashed->hashes = {{1}, {2}, {3}, {4}};

  EXPECT_EQ(changed_pieces(transfer), all) << "no hash was known";
  EXPECT_EQ(transfer.hashed->unchanged_bytes, 0u);
  EXPECT_EQ(changed_pieces(transfer), (std::vector<Piece>{{5 * kPage + 1, kPage}}));
  EXPECT_EQ(transfer.hashed->unchanged_bytes, 4 * kPage);

  transfer.hashed->hashes = {{1}, {2}, {5}, {4}};
  EXPECT_EQ(changed_pieces(transfer),
            (std::vector<Piece>{{2 * kPage, kPage}, {5 * kPage + 1, kPage}}));
  EXPECT_EQ((*transfer.hashes)[2], PageHash{5});
}

TEST(ChangedPieces, AreAllWhereTheKernelCannotRunAndAtTheNextPause) {
  const std::vector<Piece> all{{0, 2 * kPage}};
  Transfer transfer = hashed_transfer(all);
  (*transfer.hashes)[0] = (*transfer.hashes)[1] = {1};
  transfer.hashed = std::make_shared<HashedPages>();

  EXPECT_EQ(changed_pieces(transfer), all);
  transfer.hashed->hashes = {{1}, {1}};
  EXPECT_EQ(changed_pieces(transfer), all);
  EXPECT_EQ(transfer.hashed->unchanged_bytes, 0u);
}

}  // namespace
}  // namespace amem
