// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <set>
#include <string_view>

#include "base/identity.h"
#include "base/result.h"

namespace amem {

/// The instances of this user whose sockets `table` shows; `table` is the text of /proc/net/unix
/// (proc(5)), where a NUL of a name is written '@'.
std::set<InstanceId> instances_in(std::string_view table);

/// Those of this network namespace. Errors: os when /proc cannot be read.
Result<std::set<InstanceId>> instances_of_this_user();

}  // namespace amem
