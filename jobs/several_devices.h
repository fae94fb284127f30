// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <nccl.h>

#include <string>
#include <vector>

#include "jobs/device.h"
#include "jobs/orders.h"

namespace jobs {

/// A rank that drives several devices by itself: one communicator, of which it has every member.
/// NCCL then maps the memory of one member for the others in the same process (p2p.cc, P2P_DIRECT).
class SeveralDevices {
 public:
  /// They refer to this object.
  Orders orders();

 private:
  struct Member {
    Context context = nullptr;
    Stream stream = nullptr;
    ncclComm_t comm = nullptr;
    Address buffer = 0;
  };
  std::string make(Words& words);
  std::string check(Words& words);
  std::string destroy();
  void all_reduce(size_t count);

  std::vector<Member> members_;
};

}  // namespace jobs
