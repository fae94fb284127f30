// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sim/minccl/sockets.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "sim/minccl/settings.h"

namespace amem::minccl {
namespace {

// How often a wait looks whether the communicator was aborted.
constexpr int kAbortCheckMs = 20;

ncclResult_t fail_system(const char* call) {
  return fail(ncclSystemError, "%s: %s", call, strerror(errno));
}

sockaddr_in address_of(const Endpoint& at) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = at.port;
  address.sin_addr.s_addr = at.ip;
  return address;
}

ncclResult_t open_socket(UniqueFd* fd) {
  fd->reset(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return fd->valid() ? ncclSuccess : fail_system("socket(AF_INET)");
}

void send_at_once(int fd) {
  int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

bool must_wait() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

Patience Patience::begin(const std::atomic<bool>* aborting) {
  return {Deadline::after_ms(settings().timeout_ms), aborting};
}

ncclResult_t wait_for(int fd, short events, const Patience& patience, const char* what) {
  while (true) {
    if (patience.aborting != nullptr && patience.aborting->load())
      return fail(ncclInternalError, "waiting for %s: the communicator was aborted", what);
    pollfd entry{fd, events, 0};
    int ready = poll(&entry, 1, std::min(patience.deadline.left_ms(), kAbortCheckMs));
    if (ready > 0) return ncclSuccess;
    if (ready < 0 && errno != EINTR) return fail_system("poll");
    if (patience.deadline.passed())
      return fail(ncclRemoteError, "waiting for %s: no answer within %ld ms", what,
                  settings().timeout_ms);
  }
}

ncclResult_t listen_here(UniqueFd* listener, Endpoint* at) {
  MINCCL_TRY(open_socket(listener));
  sockaddr_in address = address_of({inet_addr(settings().address), 0});
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener->get(), generic, length) != 0) return fail_system("bind(MINCCL_ADDRESS)");
  if (listen(listener->get(), 1024) != 0) return fail_system("listen");
  if (getsockname(listener->get(), generic, &length) != 0) return fail_system("getsockname");
  *at = {address.sin_addr.s_addr, address.sin_port};
  return ncclSuccess;
}

ncclResult_t connect_to(const Endpoint& at, const Patience& patience, UniqueFd* connection) {
  MINCCL_TRY(open_socket(connection));
  sockaddr_in address = address_of(at);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (connect(connection->get(), generic, sizeof address) != 0) {
    if (errno != EINPROGRESS)
      return fail(ncclRemoteError, "connect(port %u): %s", ntohs(at.port), strerror(errno));
    MINCCL_TRY(wait_for(connection->get(), POLLOUT, patience, "a connection"));
    int error = 0;
    socklen_t length = sizeof error;
    getsockopt(connection->get(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0)
      return fail(ncclRemoteError, "connect(port %u): %s", ntohs(at.port), strerror(error));
  }
  send_at_once(connection->get());
  return ncclSuccess;
}

ncclResult_t accept_one(int listener, const Patience& patience, UniqueFd* connection) {
  while (true) {
    connection->reset(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (connection->valid()) break;
    if (!must_wait() && errno != ECONNABORTED) return fail_system("accept4");
    MINCCL_TRY(wait_for(listener, POLLIN, patience, "a peer to connect"));
  }
  send_at_once(connection->get());
  return ncclSuccess;
}

ncclResult_t send_all(int fd, const void* data, size_t bytes, const Patience& patience) {
  auto* next = static_cast<const char*>(data);
  while (bytes > 0) {
    ssize_t sent = send(fd, next, bytes, MSG_NOSIGNAL);
    if (sent < 0) {
      if (!must_wait()) return fail(ncclRemoteError, "send: %s", strerror(errno));
      MINCCL_TRY(wait_for(fd, POLLOUT, patience, "room to send"));
      continue;
    }
    next += sent;
    bytes -= static_cast<size_t>(sent);
  }
  return ncclSuccess;
}

ncclResult_t recv_all(int fd, void* data, size_t bytes, const Patience& patience) {
  auto* next = static_cast<char*>(data);
  while (bytes > 0) {
    ssize_t got = recv(fd, next, bytes, 0);
    if (got == 0) return fail(ncclRemoteError, "recv: the peer closed the connection");
    if (got < 0) {
      if (!must_wait()) return fail(ncclRemoteError, "recv: %s", strerror(errno));
      MINCCL_TRY(wait_for(fd, POLLIN, patience, "a peer's message"));
      continue;
    }
    next += got;
    bytes -= static_cast<size_t>(got);
  }
  return ncclSuccess;
}

}  // namespace amem::minccl
