// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <unistd.h>

#include <cstdint>
#include <set>
#include <span>
#include <string_view>

#include "base/identity.h"
#include "base/result.h"

namespace amem {

/// The instances of `user` whose sockets `table` shows; `table` is the text of /proc/net/unix
/// (proc(5)), where a NUL of a name is written '@' and nothing says whose a socket is.
std::set<InstanceId> instances_in(std::string_view table, uid_t user = geteuid());

/// Takes one datagram of the kernel's answer to a dump of unix sockets (sock_diag(7)): the
/// instances of `user` whose sockets are his go to `found`. True when the dump goes on. Errors: os
/// when the kernel refuses, protocol when it is no such answer.
Result<bool> take_instances(std::span<const uint8_t> answer, uid_t user,
                            std::set<InstanceId>* found);

/// Those that /proc/net/unix shows. Errors: os when it cannot be read.
Result<std::set<InstanceId>> instances_shown(uid_t user = geteuid());

/// The instances of this user in this network namespace. Names that other users gave to their
/// sockets are not among them; only where the kernel does not say whose a socket is (no sock_diag,
/// or before Linux 5.3) they are. Errors: os when /proc cannot be read either.
Result<std::set<InstanceId>> instances_of_this_user();

}  // namespace amem
