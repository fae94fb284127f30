// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <string>

#include "jobs/orders.h"

namespace jobs {

/// What an order is answered with: "ok ..." or "error ...", one line.
std::string answer_to(const Orders& orders, const std::string& line);

/// The life of a rank: a line on standard input is one order, the answer is one line on standard
/// output, "ok ..." or "error ...". Ends the process at "exit" or when the input ends, without
/// tearing communicators down: a controller that is gone cannot tell the other ranks to do the
/// same.
[[noreturn]] void follow_orders(const Orders& orders);

/// For a rank program called with `version`: prints the version of its NCCL. The exit code.
int print_version();

}  // namespace jobs
