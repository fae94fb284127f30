// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "jobs/orders.h"

namespace jobs {

/// Commands that start a child of the rank; one child at a time. They return its pid.
///
/// `fork_child` forks; amem is inactive in the child. `exec_child` forks and runs another program;
/// `spawn_child` and `vfork_child` do so with posix_spawn(3) and vfork(2). `end_child` ends it
/// through exit(3) and returns its wait status.
///
/// `exec` and `exec_rank` answer nothing: cat(1), or the program of the rank, which follows
/// commands, runs in the place of the rank.
Orders child_orders();

}  // namespace jobs
