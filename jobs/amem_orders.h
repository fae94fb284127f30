// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "jobs/orders.h"

namespace jobs {

/// Commands that need amem in the process: pause, resume and the state of amem.
Orders amem_orders();

}  // namespace jobs
