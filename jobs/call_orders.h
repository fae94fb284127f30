// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "jobs/communicator_orders.h"
#include "jobs/orders.h"

namespace jobs {

/// One call of NCCL with nothing around it, for functions that a test wants to see refused or let
/// in rather than used.
class CallOrders {
 public:
  /// What the calls take. Nobody looks at what is in the buffer.
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
  /// what the last call of their counterpart gave; a communicator that a call makes is left alone.
  /// The orders refer to this object.
  Orders orders();

 private:
  std::string call(Words& words);

  CommunicatorOrders& communicators_;
  Arguments arguments_;
};

}  // namespace jobs
