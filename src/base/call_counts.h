// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstdint>
#include <vector>

#include "base/identity.h"

namespace amem {

/// How often a process has called NCCL, communicator by communicator; communicators that have ended
/// too.
struct CallCounts {
  /// Most of each list; a process with more is not sure.
  static constexpr size_t kMost = 1000;

  /// One rank of a communicator that this process is or was.
  struct Member {
    CommunicatorId communicator;
    uint32_t rank = 0;
    uint64_t collectives = 0;
    bool operator==(const Member&) const = default;
  };
  /// What a member sent to another rank and received from it, if anything.
  struct Pair {
    uint16_t member = 0;  ///< index in `members`
    uint32_t peer = 0;    ///< the other's rank
    uint64_t sends = 0;
    uint64_t receives = 0;
    bool operator==(const Pair&) const = default;
  };

  /// Was everything counted by which a message can come to lie in a buffer? Then no communicator is
  /// missing either; otherwise those in `members` are some.
  bool sure = false;
  std::vector<Member> members;
  std::vector<Pair> pairs;
  bool operator==(const CallCounts&) const = default;
};

}  // namespace amem
