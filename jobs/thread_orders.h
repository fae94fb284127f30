// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <map>
#include <memory>
#include <string>

#include "jobs/orders.h"

namespace jobs {

/// Orders for threads of the rank beside the one that talks to the controller: what one thread does
/// while another is inside a call.
///
/// `thread NAME ORDER...` has the thread of that name follow the order, after those that it has
/// already; its device is that of the thread which gave it its first. `wait NAME` answers as the
/// thread's oldest order that nobody waited for. Orders that add or remove a communicator must not
/// run beside others: their table is not locked.
class ThreadOrders {
 public:
  /// `all` has to be complete before the first of its orders is given to a thread.
  explicit ThreadOrders(const Orders& all);
  ~ThreadOrders();

  /// They refer to this object.
  Orders orders();

 private:
  class OrderThread;

  std::string thread(Words& words);
  std::string wait(Words& words);

  const Orders& all_;
  std::map<std::string, std::unique_ptr<OrderThread>> threads_;
};

}  // namespace jobs
