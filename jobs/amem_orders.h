// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "jobs/orders.h"

namespace jobs {

/// The orders that need amem in the process: pause, resume and what amem says of itself.
Orders amem_orders();

}  // namespace jobs
