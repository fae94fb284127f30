// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <string>

#include "jobs/orders.h"

namespace jobs {

/// The reply to a command: "ok ..." or "error ...", one line.
std::string answer_to(const Orders& orders, const std::string& line);

/// The main loop of a rank: each line of standard input is a command, each line of standard output
/// is its reply, "ok ..." or "error ...". Ends the process at "exit" or at the end of the input,
/// without destroying communicators, because a controller that has ended cannot tell the other
/// ranks to do the same.
[[noreturn]] void follow_orders(const Orders& orders);

/// The descriptor of these replies.
int answers_descriptor();

/// For a rank program called with `version`: prints the version of its NCCL. Returns the exit code.
int print_version();

}  // namespace jobs
