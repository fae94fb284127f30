// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "contents/retained.h"

#include <algorithm>
#include <map>

#include "base/test_seam.h"

namespace amem {
namespace {

/// Calls `use(page)` for the pages of the backing that lie in the pieces as a whole.
template <typename Use>
void for_each_page(const std::vector<Piece>& pieces, Use use) {
  for (const auto& [offset_bytes, size_bytes] : pieces)
    for (size_t page = (offset_bytes + kSlotBytes - 1) / kSlotBytes;
         (page + 1) * kSlotBytes <= offset_bytes + size_bytes; ++page)
      use(page);
}

}  // namespace

std::vector<std::shared_ptr<HashedPages>> hash_together(std::vector<Transfer>* transfers) {
  std::vector<std::shared_ptr<HashedPages>> all;
  std::map<int, std::shared_ptr<HashedPages>> last;  // by device
  for (Transfer& transfer : *transfers) {
    if (transfer.hashes == nullptr) continue;
    std::shared_ptr<HashedPages>& hashed = last[transfer.device];
    const size_t count = total_bytes(transfer.pieces) / kSlotBytes;
    if (hashed == nullptr || hashed->pages.size() + count > Kernels::kMaxPagesAtOnce)
      all.push_back(hashed = std::make_shared<HashedPages>());
    transfer.hashed = hashed;
    transfer.first_hashed = hashed->pages.size();
    for_each_page(transfer.pieces, [&](size_t page) {
      hashed->pages.push_back(transfer.address + page * kSlotBytes);
    });
  }
  return all;
}

bool fits_retained(const std::vector<Piece>& pieces, const std::vector<Piece>& retained) {
  const auto is_retained = [&](const Piece& piece) {
    const auto next =
        std::ranges::upper_bound(retained, piece.offset_bytes, {}, &Piece::offset_bytes);
    return next != retained.begin() &&
           piece.offset_bytes + piece.size_bytes <= next[-1].offset_bytes + next[-1].size_bytes;
  };
  return 2 * total_bytes(pieces) >= total_bytes(retained) &&
         std::ranges::all_of(pieces, is_retained);
}

std::vector<CopyRange> changed_ranges(const Transfer& transfer,
                                      const std::vector<CopyRange>& ranges) {
  const std::vector<PageHash>& hashes = transfer.hashed->hashes;
  std::vector<bool> is_same(transfer.hashes->size());
  size_t next = transfer.first_hashed;
  for_each_page(transfer.pieces, [&](size_t page) {
    PageHash& known = (*transfer.hashes)[page];
    const PageHash found = hashes.empty() ? PageHash{} : hashes[next++];
    is_same[page] =
        known != PageHash{} && (known == found || seeded_fault("take_all_for_unchanged"));
    known = found;
    if (is_same[page]) transfer.hashed->unchanged_bytes += kSlotBytes;
  });
  std::vector<CopyRange> changed;
  for (const auto& [offset_bytes, on_host] : ranges)
    for (size_t done = 0, bytes = 0; done < on_host.size_bytes; done += bytes) {
      const size_t at = offset_bytes + done;
      bytes = std::min(on_host.size_bytes - done, kSlotBytes - at % kSlotBytes);
      if (is_same[at / kSlotBytes]) continue;
      if (done > 0 && !changed.empty() && changed.back().on_host.end() == on_host.base + done)
        changed.back().on_host.size_bytes += bytes;
      else
        changed.push_back({at, {on_host.base + done, bytes}});
    }
  return changed;
}

}  // namespace amem
