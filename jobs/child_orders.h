// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "jobs/orders.h"

namespace jobs {

/// Commands that start a child of the rank; one child at a time. Both return its pid.
///
/// `fork_child` forks; amem is inactive in the child. `exec_child` forks and runs another program.
/// `end_child` ends it through exit(3) and returns its wait status.
Orders child_orders();

}  // namespace jobs
