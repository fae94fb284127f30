// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "jobs/orders.h"

namespace jobs {

/// Orders that start children of the rank and let them live while the rank does other things; one
/// child at a time. Both answer with its pid.
///
/// `fork_child` forks, and the child finds amem only forwarding; `exec_child` forks and runs
/// another program. `end_child` lets it end, through exit(3), and answers with its wait status.
Orders child_orders();

}  // namespace jobs
