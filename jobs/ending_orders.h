// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "jobs/orders.h"

namespace jobs {

/// Orders that end the rank as an application ends: through exit(3), whose handlers follow orders.
///
/// `at_exit first ORDER...` runs before every other exit handler, `at_exit last ORDER...` after
/// those that were registered since the start of the rank, amem's among them; answers go to
/// standard error as "at exit: ok ..." or "at exit: error ...". `exit_with CODE` and
/// `quick_exit_with CODE` then end the process and answer nothing; of the second only `first`
/// orders are followed. `next_line` waits for a line from the controller, for use in a handler.
///
/// To be called once, before anything else of the rank; `all` has to be there until the end.
Orders ending_orders(const Orders& all);

}  // namespace jobs
