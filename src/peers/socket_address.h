// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <string_view>

#include "base/identity.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace amem {

/// The abstract address at which an instance listens: "\0amem-<uid>-<32 hexadecimal digits>". Known
/// in its network namespace only, and gone with the process (unix(7), "Abstract sockets").
std::string socket_name(const InstanceId& instance, uid_t user = geteuid());

/// The instance of this user that has this name, if it is one. Whoever likes gives himself a name.
std::optional<InstanceId> instance_of(std::string_view name, uid_t user = geteuid());

/// A listening, non-blocking SOCK_SEQPACKET socket at socket_name(instance). Errors: os.
Result<UniqueFd> listen_at(const InstanceId& instance);

/// Connects to socket_name(instance) without waiting; an invalid fd when the listener's queue is
/// full just now. Errors: peer when nobody listens there, os.
Result<UniqueFd> dial(const InstanceId& instance);

/// From now on fds may come over this connection. Until then the kernel refuses them to the one who
/// sends them, with EPERM, from Linux 6.16 on (SO_PASSRIGHTS); an older one lets them come.
void allow_fds(int socket);

/// Who is at the other end: the process that dialled, or the one that listened (SO_PEERCRED,
/// unix(7)). pid is 0 when that process is not visible in our pid namespace.
Result<ucred> credentials_of(int socket);

/// Whether this process talks to the one at the other end: only to its own user's.
bool is_of_this_user(const ucred& other);

}  // namespace amem
