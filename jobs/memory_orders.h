// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "jobs/device.h"
#include "jobs/orders.h"

namespace jobs {

/// What a rank sees of its device's and its own process' memory, and the memory it takes as a
/// tenant that knows nothing of NCCL.
class MemoryOrders {
 public:
  /// They refer to this object.
  Orders orders();

 private:
  std::string occupy(Words& words);
  std::string drain();

  std::vector<std::pair<Address, size_t>> pieces_;
  unsigned pattern_ = 0;
};

}  // namespace jobs
