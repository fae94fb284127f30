// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "jobs/orders.h"

namespace jobs {

/// Commands that stop a thread at a step point of a library with seeded faults
/// (base/test_seam.h).
///
/// `hold_at POINT [N]`: the thread that reaches this point for the N-th time stays there until
/// `go_on`. `held` returns whether one does.
Orders step_orders();

}  // namespace jobs
