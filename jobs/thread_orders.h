// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <map>
#include <memory>
#include <string>

#include "jobs/orders.h"

namespace jobs {

/// Commands for additional threads of the rank: for calls while another thread is inside a call.
///
/// `thread NAME COMMAND...` queues the command for the thread of that name. Its device is that of
/// the thread that gave it its first command. `wait NAME` returns the reply to the oldest command
/// that was not waited for. Commands that add or remove a communicator must not run in parallel
/// with others: their table is not locked.
class ThreadOrders {
 public:
  /// `all` must be complete before a thread gets its first command.
  explicit ThreadOrders(const Orders& all);
  ~ThreadOrders();

  /// The commands refer to this object.
  Orders orders();

 private:
  class OrderThread;

  std::string thread(Words& words);
  std::string wait(Words& words);

  const Orders& all_;
  std::map<std::string, std::unique_ptr<OrderThread>> threads_;
};

}  // namespace jobs
