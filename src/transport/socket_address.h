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
// user may enter. NCCL connects two processes of one host through GPU memory or host memory only if
// they have the same /dev/shm (ncclTopoCheckP2p, graph/paths.cc@v2.30.7-1; shmCanConnect,
// transport/shm.cc@v2.30.7-1). Processes that share memory therefore find each other in different
// pid and network namespaces (docs/decisions/0010).

/// "/dev/shm/amem-1000/<32 hexadecimal digits>".
std::string socket_path(const InstanceId& instance);

/// The instances of this user that share /dev/shm with this process. Some may have ended; dial()
/// detects it. Errors: os, also if the directory belongs to another user.
Result<std::set<InstanceId>> instances_of_this_user();

/// Creates a listening, non-blocking SOCK_SEQPACKET socket at socket_path(instance), and the
/// directory. Errors: os.
Result<UniqueFd> listen_at(const InstanceId& instance);

/// Connects to socket_path(instance) without waiting. Removes the name if its process has ended.
/// Errors: peer, if no process listens there; os, with EAGAIN if the listener's queue is full.
Result<UniqueFd> dial(const InstanceId& instance);

/// The process at the other end (SO_PEERCRED, unix(7)). 0 if it is not visible in the pid namespace
/// of this process.
Result<pid_t> pid_of_peer(int socket);

/// A pidfd of that process: readable when it has ended and its resources are released
/// (pidfd_open(2)). Invalid if there is none: before Linux 5.3, and before Linux 6.5 if the process
/// is not visible in the pid namespace of this one.
UniqueFd process_of_peer(int socket);

/// The table of mappings (proc(5)) of the process of a pidfd. The kernel binds an open table to the
/// address space of its opening, which exec(3) ends: later mappings of the process are not in it.
/// Invalid if the process is not visible in /proc or may not be read.
UniqueFd mappings_of_process(int pidfd);

/// True if that address space has ended although its process lives: it runs another program.
bool have_ended(int mappings);

}  // namespace amem
