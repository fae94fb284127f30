// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <unistd.h>

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string_view>

#include "base/identity.h"
#include "base/result.h"

namespace amem {

/// The instances of `user` whose sockets `table` shows; `table` is the text of /proc/net/unix
/// (proc(5)), where a NUL of a name is written '@' and nothing says whose a socket is.
std::set<InstanceId> instances_in(std::string_view table, uid_t user = geteuid());

/// Whose a socket with the name of an instance is. Whoever likes gives a socket such a name.
using NameOwners = std::map<InstanceId, uid_t>;

/// Takes one datagram of the kernel's answer to a dump of unix sockets (sock_diag(7)): those with
/// names of instances of `user` go to `found`; as his where the kernel does not say whose they are.
/// True when the dump goes on. Errors: os when the kernel refuses, protocol when it is no such
/// answer.
Result<bool> take_names(std::span<const uint8_t> answer, uid_t user, NameOwners* found);

/// Those that /proc/net/unix shows. Errors: os when it cannot be read.
Result<std::set<InstanceId>> instances_shown(uid_t user = geteuid());

/// The instances of this user in this network namespace. Names that other users gave to their
/// sockets are not among them; only where the kernel does not say whose a socket is (no sock_diag,
/// or before Linux 5.3) they are. Errors: os when /proc cannot be read either.
Result<std::set<InstanceId>> instances_of_this_user();

/// Whether another user listens at the name of this instance of this user, which then has ended.
/// False when the kernel does not say.
bool is_name_taken(const InstanceId& instance);

}  // namespace amem
