// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <sys/types.h>

#include <set>
#include <string>

#include "base/identity.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace amem {

// Each instance listens on a socket in the directory /dev/shm/amem-<effective uid>, which only this
// user may enter: the kernel keeps other users out. NCCL connects two processes of one host through
// GPU memory or host memory only when they have the same /dev/shm (ncclTopoCheckP2p,
// graph/paths.cc@v2.30.7-1; shmCanConnect, transport/shm.cc@v2.30.7-1), so those that share memory
// find each other, whatever their pid and network namespaces are (docs/decisions/0010).

/// "/dev/shm/amem-1000/<32 hexadecimal digits>".
std::string socket_path(const InstanceId& instance);

/// The instances of this user that share /dev/shm with this process. Some may have ended: dial()
/// finds out. Errors: os, also when the directory belongs to somebody else.
Result<std::set<InstanceId>> instances_of_this_user();

/// A listening, non-blocking SOCK_SEQPACKET socket at socket_path(instance); makes the directory.
/// Errors: os.
Result<UniqueFd> listen_at(const InstanceId& instance);

/// Connects to socket_path(instance) without waiting. Removes what a process that was killed has
/// left behind. Errors: peer when nobody listens there; os, EAGAIN when the listener's queue is
/// full just now.
Result<UniqueFd> dial(const InstanceId& instance);

/// The process at the other end: the one that dialled, or the one that listened (SO_PEERCRED,
/// unix(7)). 0 when it is not visible in our pid namespace.
Result<pid_t> pid_of_peer(int socket);

/// A pidfd of that process, which is readable once it has ended and holds nothing any more
/// (pidfd_open(2)). Invalid where there is none: before Linux 6.5 when it is not visible in our pid
/// namespace, before Linux 5.3 always.
UniqueFd process_of_peer(int socket);

}  // namespace amem
