// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "jobs/orders.h"

namespace jobs {

/// Commands that end the rank like an application: through exit(3), whose handlers run commands.
///
/// `at_exit first COMMAND...` runs before all other exit handlers. `at_exit last COMMAND...` runs
/// after those that were registered since the start of the rank, including amem's. Replies are
/// written to standard error as "at exit: ok ..." or "at exit: error ...". `exit_with CODE` and
/// `quick_exit_with CODE` end the process without a reply; the second runs only `first` commands.
/// `next_line` waits for a line from the controller, for use in a handler.
///
/// Must be called once, before anything else in the rank. `all` must exist until the end.
Orders ending_orders(const Orders& all);

}  // namespace jobs
