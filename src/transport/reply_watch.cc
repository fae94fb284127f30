// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "transport/reply_watch.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <chrono>
#include <cstring>

#include "base/mutex.h"

namespace amem {
namespace {

using Clock = std::chrono::steady_clock;

struct OpenRequest {
  char socket[sizeof sockaddr_un::sun_path + 1] = "";
  Clock::time_point sent;
};
constinit thread_local bool t_is_open = false;
constinit thread_local OpenRequest t_request;

void remember(const msghdr& message) {
  const auto* const to = static_cast<const sockaddr_un*>(message.msg_name);
  if (to == nullptr || message.msg_namelen < sizeof(sockaddr_un) || to->sun_family != AF_UNIX)
    return;
  memcpy(t_request.socket, to->sun_path, sizeof to->sun_path);
  if (t_request.socket[0] == '\0') t_request.socket[0] = '@';
  t_request.sent = Clock::now();
  t_is_open = true;
}

}  // namespace

ssize_t send_watched(int socket, const msghdr* message, int flags) {
  const ssize_t sent = sendmsg(socket, message, flags);
  if (sent >= 0) remember(*message);
  return sent;
}

ssize_t receive_watched(int socket, msghdr* message, int flags) {
  const ssize_t got = recvmsg(socket, message, flags);
  if (got >= 0) t_is_open = false;
  return got;
}

const char* unanswered_socket() {
  if (!t_is_open || Clock::now() - t_request.sent < std::chrono::milliseconds(kNoticeMs))
    return nullptr;
  t_is_open = false;
  return t_request.socket;
}

}  // namespace amem
