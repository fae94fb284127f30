// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "contents/zero_pages.h"

#include "contents/kernels.h"

namespace amem {
namespace {

size_t page_count(DeviceAddress backing, const Piece& piece) {
  return (backing + piece.offset_bytes) % kKernelAlignment == 0 ? piece.size_bytes / kSlotBytes : 0;
}

}  // namespace

void add_pages(DeviceAddress backing, const std::vector<Piece>& pieces,
               std::vector<DeviceAddress>* pages) {
  for (const Piece& piece : pieces)
    for (size_t page = 0; page < page_count(backing, piece); ++page)
      pages->push_back(backing + piece.offset_bytes + page * kSlotBytes);
}

std::vector<Piece> without_zero_pages(DeviceAddress backing, const std::vector<Piece>& pieces,
                                      std::vector<bool>::const_iterator* is_zero) {
  std::vector<Piece> left;
  for (const Piece& piece : pieces) {
    const size_t whole_pages = page_count(backing, piece);
    const size_t end_bytes = piece.offset_bytes + piece.size_bytes;
    const size_t piece_begins = left.size();
    for (size_t at = piece.offset_bytes, page = 0; at < end_bytes; ++page) {
      const size_t bytes = page < whole_pages ? kSlotBytes : end_bytes - at;
      const bool zero = page < whole_pages && *(*is_zero)++;
      const size_t gap_bytes = left.size() == piece_begins
                                   ? SIZE_MAX
                                   : at - left.back().offset_bytes - left.back().size_bytes;
      if (!zero && gap_bytes < kMinZeroPages * kSlotBytes)
        left.back().size_bytes += gap_bytes + bytes;
      else if (!zero)
        left.push_back({at, bytes});
      at += bytes;
    }
  }
  return left;
}

}  // namespace amem
