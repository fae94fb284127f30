// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <string>

#include "base/identity.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace amem {

/// The abstract address at which an instance listens: "\0amem-<uid>-<32 hexadecimal digits>". Known
/// in its network namespace only, and gone with the process (unix(7), "Abstract sockets").
std::string socket_name(const InstanceId& instance);

/// A listening, non-blocking SOCK_SEQPACKET socket at socket_name(instance). Errors: os.
Result<UniqueFd> listen_at(const InstanceId& instance);

/// Connects to socket_name(instance) without waiting; an invalid fd when the listener's queue is
/// full just now. Errors: peer when nobody listens there, os.
Result<UniqueFd> dial(const InstanceId& instance);

/// Who is at the other end: the process that dialled, or the one that listened (SO_PEERCRED,
/// unix(7)). pid is 0 when that process is not visible in our pid namespace.
Result<ucred> credentials_of(int socket);

}  // namespace amem
