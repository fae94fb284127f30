// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "contents/retained.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "base/test_seam.h"

namespace amem {
namespace {

void append(std::vector<Piece>* pieces, size_t offset_bytes, size_t size_bytes) {
  if (!pieces->empty() && pieces->back().offset_bytes + pieces->back().size_bytes == offset_bytes)
    pieces->back().size_bytes += size_bytes;
  else
    pieces->push_back({offset_bytes, size_bytes});
}

/// A block of these ranges, which keeps the blocks that own their memory.
Contents contents_of(const std::vector<CopyRange>& ranges, std::vector<HostBlock> owners) {
  std::vector<Piece> pieces;
  auto extents = std::make_unique<std::vector<HostExtent>>();
  for (const auto& [offset_bytes, on_host] : ranges) {
    append(&pieces, offset_bytes, on_host.size_bytes);
    extents->push_back(on_host);
  }
  const auto end = [owners = std::move(owners)](const std::vector<HostExtent>* block) {
    const std::unique_ptr<const std::vector<HostExtent>> gone(block);
  };
  return {HostBlock(extents.release(), end), std::move(pieces)};
}

/// Calls `use(offset_bytes, size_bytes)` for the parts of the pieces that do not cross the end of a
/// page of the backing.
template <typename Use>
void for_each_page(const std::vector<Piece>& pieces, Use use) {
  for (const auto& [offset_bytes, size_bytes] : pieces)
    for (size_t at = offset_bytes, end = at + size_bytes, bytes = 0; at < end; at += bytes) {
      bytes = std::min(end - at, kHashedPageBytes - at % kHashedPageBytes);
      use(at, bytes);
    }
}

}  // namespace

std::vector<Piece> without(const std::vector<Piece>& pieces, const std::vector<CopyRange>& ranges) {
  std::vector<Piece> left;
  auto range = ranges.begin();
  for (const Piece& piece : pieces) {
    size_t at = piece.offset_bytes;
    const size_t end = at + piece.size_bytes;
    while (range != ranges.end() && range->end_bytes() <= at) ++range;
    for (auto next = range; next != ranges.end() && next->offset_bytes < end; ++next) {
      if (at < next->offset_bytes) append(&left, at, next->offset_bytes - at);
      at = std::min(end, next->end_bytes());
    }
    if (at < end) append(&left, at, end - at);
  }
  return left;
}

std::vector<CopyRange> within(const std::vector<CopyRange>& ranges,
                              const std::vector<Piece>& pieces) {
  std::vector<CopyRange> found;
  auto piece = pieces.begin();
  for (const CopyRange& range : ranges) {
    while (piece != pieces.end() && piece->offset_bytes + piece->size_bytes <= range.offset_bytes)
      ++piece;
    for (auto next = piece; next != pieces.end() && next->offset_bytes < range.end_bytes();
         ++next) {
      const size_t begin = std::max(range.offset_bytes, next->offset_bytes);
      const size_t end = std::min(range.end_bytes(), next->offset_bytes + next->size_bytes);
      found.push_back({begin, {range.on_host.base + (begin - range.offset_bytes), end - begin}});
    }
  }
  return found;
}

Contents add_to_retained(Transfer* transfer) {
  std::vector<CopyRange> all = std::move(transfer->retained);
  std::vector<HostBlock> owners{std::move(transfer->retained_block)};
  if (transfer->on_host != nullptr) {
    const std::vector<CopyRange> added = copy_ranges(transfer->pieces, *transfer->on_host);
    all.insert(all.end(), added.begin(), added.end());
    std::ranges::sort(all, {}, &CopyRange::offset_bytes);
    owners.push_back(std::move(transfer->on_host));
  }
  Contents contents = contents_of(all, owners);
  if (owners.size() == 1) contents.first = owners.front();
  std::tie(transfer->on_host, transfer->pieces) =
      contents_of(within(all, transfer->live), {contents.first});
  return contents;
}

std::vector<std::shared_ptr<HashedPages>> hash_together(std::vector<Transfer>* transfers) {
  std::vector<std::shared_ptr<HashedPages>> all;
  std::map<int, std::shared_ptr<HashedPages>> last;  // by device
  for (Transfer& transfer : *transfers) {
    if (transfer.hashes == nullptr) continue;
    std::vector<DeviceAddress> pages;
    for_each_page(transfer.pieces, [&](size_t at, size_t bytes) {
      if (bytes == kHashedPageBytes) pages.push_back(transfer.address + at);
    });
    std::shared_ptr<HashedPages>& hashed = last[transfer.device];
    if (hashed == nullptr || hashed->pages.size() + pages.size() > Kernels::kMaxPagesAtOnce)
      all.push_back(hashed = std::make_shared<HashedPages>());
    transfer.hashed = hashed;
    transfer.first_hashed = hashed->pages.size();
    hashed->pages.insert(hashed->pages.end(), pages.begin(), pages.end());
  }
  return all;
}

std::vector<Piece> changed_pieces(const Transfer& transfer) {
  std::vector<Piece> changed;
  HashedPages& hashed = *transfer.hashed;
  size_t next = transfer.first_hashed;
  for_each_page(transfer.pieces, [&](size_t at, size_t bytes) {
    bool is_same = false;
    PageHash& known = (*transfer.hashes)[at / kHashedPageBytes];
    if (bytes != kHashedPageBytes) {
      known = {};  // on the host, a part of the page changes
    } else {
      const PageHash found = hashed.hashes.empty() ? PageHash{} : hashed.hashes[next++];
      is_same = known != PageHash{} && (known == found || seeded_fault("take_all_for_unchanged"));
      known = found;
    }
    if (is_same)
      hashed.unchanged_bytes += bytes;
    else
      append(&changed, at, bytes);
  });
  return changed;
}

}  // namespace amem
