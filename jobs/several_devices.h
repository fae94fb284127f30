// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <nccl.h>

#include <string>
#include <vector>

#include "jobs/device.h"
#include "jobs/orders.h"

namespace jobs {

/// A rank that uses several devices: it has all members of one communicator. NCCL then maps the
/// memory of one member for the others in the same process (p2p.cc, P2P_DIRECT).
class SeveralDevices {
 public:
  /// The commands refer to this object.
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
