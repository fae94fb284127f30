// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "jobs/orders.h"

namespace jobs {

/// Orders that call amem where it must refuse: in signal handlers.
///
/// `in_signal pause|resume` makes that call in the handler of a signal that the rank sends itself,
/// and answers with its result and what amemGetLastError() says there. `signal_storm CYCLES` pauses
/// and resumes that often and allocates in between, while a signal comes again and again whose
/// handler calls both; the answer is how often the handler was refused and how often it was not.
Orders signal_orders();

}  // namespace jobs
