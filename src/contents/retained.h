// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

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

/// Sets `hashed` of the transfers with `hashes`. Of one device, pages of several transfers are
/// together as far as one launch can have them.
std::vector<std::shared_ptr<HashedPages>> hash_together(std::vector<Transfer>* transfers);

/// Whether a transfer to the host needs no other memory than what is retained: it has all bytes of
/// the transfer, and at most as many others. Pure.
bool fits_retained(const std::vector<Piece>& pieces, const std::vector<Piece>& retained);

/// The parts of the copies of a transfer that differ from what is on the host, in pages of the
/// backing, and those that are no whole pages. From now on, `hashes` has those of the backing's
/// contents. REQUIRES: its `hashed` is hashed.
std::vector<CopyRange> changed_ranges(const Transfer& transfer,
                                      const std::vector<CopyRange>& ranges);

}  // namespace amem
