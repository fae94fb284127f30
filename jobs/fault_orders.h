// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "jobs/orders.h"

namespace jobs {

/// Commands that cause failures, for tests: variables that the next step reads, and failing calls
/// of the simulated driver.
Orders fault_orders();

}  // namespace jobs
