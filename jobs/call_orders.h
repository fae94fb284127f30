// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "jobs/communicator_orders.h"
#include "jobs/orders.h"

namespace jobs {

/// Single calls of NCCL, for tests whether a function is refused or let in.
class CallOrders {
 public:
  /// The arguments of the calls. The contents of the buffer are not checked.
  struct Arguments {
    ncclComm_t comm = nullptr;
    Stream stream = nullptr;
    void* buffer = nullptr;  ///< device memory
    void* user_memory = nullptr;
    void* registration = nullptr;
    void* window = nullptr;
  };

  explicit CallOrders(CommunicatorOrders& communicators) : communicators_(communicators) {}

  /// `call FUNCTION COMMUNICATOR`. ncclMemFree, ncclCommDeregister and ncclCommWindowDeregister get
  /// the result of the last call of their counterpart. A communicator that a call creates is not
  /// used. The commands refer to this object.
  Orders orders();

 private:
  std::string call(Words& words);

  CommunicatorOrders& communicators_;
  Arguments arguments_;
};

}  // namespace jobs
