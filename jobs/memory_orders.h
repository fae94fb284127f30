// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "jobs/device.h"
#include "jobs/orders.h"

namespace jobs {

/// The memory of a rank's device and process, and memory that the rank allocates as a program
/// without NCCL.
class MemoryOrders {
 public:
  /// The commands refer to this object.
  Orders orders();

 private:
  std::string occupy(Words& words);
  std::string drain();

  std::vector<std::pair<Address, size_t>> pieces_;
  unsigned pattern_ = 0;
};

}  // namespace jobs
