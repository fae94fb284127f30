// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <vector>

#include "base/deadline.h"
#include "base/identity.h"
#include "base/result.h"

namespace amem {

/// What only those who see NCCL's calls can say. Implemented by the shim, asked by the session.
class NcclState {
 public:
  virtual ~NcclState() = default;

  /// Waits until none of these communicators, of all when `ids` is nullptr, has an asynchronous
  /// operation in progress (ncclConfig_t::blocking 0): NCCL launches what was called later, on a
  /// thread of its own. Timeout at the deadline.
  virtual Status wait_until_settled(const std::vector<CommunicatorId>* ids, Deadline deadline) = 0;

  /// Is a stream with NCCL work on it being captured? A capture without any is not disturbed by a
  /// pause.
  virtual bool is_capturing() = 0;
};

}  // namespace amem
