// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "contents/copier.h"

namespace amem {

// Contents on the host that outlive a resume: of them, the next pause copies only what has changed.

/// The pages of some transfers of one device, which are hashed together: a launch for each transfer
/// takes longer.
struct HashedPages {
  std::vector<DeviceAddress> pages;
  // Written by the thread of the device:
  bool is_hashed = false;
  std::vector<PageHash> hashes;  ///< of the pages; empty if the kernel cannot run
  std::atomic<size_t> unchanged_bytes{0};
};

/// The pieces without the bytes that the ranges have. Both are in order of offset. Pure.
std::vector<Piece> without(const std::vector<Piece>& pieces, const std::vector<CopyRange>& ranges);
/// The parts of the ranges that lie in the pieces. Both are in order of offset. Pure.
std::vector<CopyRange> within(const std::vector<CopyRange>& ranges,
                              const std::vector<Piece>& pieces);

/// Adds the pieces of a transfer, whose memory is new, to what is retained of its backing, and
/// returns all of it. The transfer then has all bytes of it that are live, at their places.
using Contents = std::pair<HostBlock, std::vector<Piece>>;
Contents add_to_retained(Transfer* transfer);

/// Sets `hashed` of the transfers with `hashes`. Of one device, pages of several transfers are
/// together as far as one launch can have them.
std::vector<std::shared_ptr<HashedPages>> hash_together(std::vector<Transfer>* transfers);

/// The pieces of a transfer that differ from those on the host, in whole pages of the backing, and
/// those that cannot be compared. From now on, `hashes` has those of the backing's contents.
/// REQUIRES: its `hashed` is hashed.
std::vector<Piece> changed_pieces(const Transfer& transfer);

}  // namespace amem
