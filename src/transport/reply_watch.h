// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <sys/types.h>

struct msghdr;

namespace amem {

/// sendmsg(2) and recvmsg(2) for a thread of a library that sends a request to a Unix socket and
/// then repeats recvmsg(2) until the reply arrives. They only call the originals and remember
/// whether a reply is open. Any thread.
ssize_t send_watched(int socket, const msghdr* message, int flags);
ssize_t receive_watched(int socket, msghdr* message, int flags);

/// The name of the Unix socket to which the calling thread has sent its last request, if there is
/// no reply after kNoticeMs; otherwise, and after the first such call for a request, nullptr. The
/// first character of an abstract name is '@'. Does not change errno.
const char* unanswered_socket();

}  // namespace amem
