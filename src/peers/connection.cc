// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "peers/connection.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "peers/message.h"

namespace amem {
namespace {

/// Room for one SCM_RIGHTS message; aligned as CMSG_FIRSTHDR wants it.
struct alignas(cmsghdr) ControlRoom {
  std::array<char, CMSG_SPACE(kMaxFds * sizeof(int))> bytes;
};

/// Takes every fd that came with a packet, so that none is left open by mistake.
std::vector<UniqueFd> take_fds(msghdr& header) {
  std::vector<UniqueFd> fds;
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
      fds.emplace_back(fd);
    }
  }
  return fds;
}

/// One sendmsg(2); 0 or its errno.
int send_packet(int socket, OutPacket& packet) {
  iovec data{packet.bytes.data(), packet.bytes.size()};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  ControlRoom room;
  if (!packet.fds.empty()) {
    header.msg_control = room.bytes.data();
    header.msg_controllen = CMSG_SPACE(packet.fds.size() * sizeof(int));
    memset(room.bytes.data(), 0, header.msg_controllen);
    cmsghdr* part = CMSG_FIRSTHDR(&header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(packet.fds.size() * sizeof(int));
    for (size_t i = 0; i < packet.fds.size(); ++i) {
      const int fd = packet.fds[i].get();
      memcpy(CMSG_DATA(part) + i * sizeof fd, &fd, sizeof fd);
    }
  }
  while (sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
    if (errno != EINTR) return errno;
  return 0;
}

}  // namespace

size_t queue_cost_bytes(const OutPacket& packet) {
  return packet.bytes.size() + sizeof(OutPacket) + packet.fds.size() * sizeof(TrackedFd);
}

Connection::~Connection() { shutdown(socket_.get(), SHUT_RDWR); }

Result<Arrival> Connection::receive() {
  std::array<uint8_t, kMaxMessageBytes> room;
  ControlRoom control;
  bool reset_seen = false;
  for (;;) {
    iovec data{room.data(), room.size()};
    msghdr header{};
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    header.msg_control = control.bytes.data();
    header.msg_controllen = control.bytes.size();
    const ssize_t got = recvmsg(fd(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return Arrival{};
      if (errno == ENOMEM || errno == ENOBUFS) return Arrival{Arrival::What::starved, {}, {}};
      // A peer that closes before it has read everything leaves ECONNRESET, reported once and ahead
      // of the packets that it had sent (unix(7); Linux net/unix/af_unix.c, unix_release_sock).
      if (errno != ECONNRESET) return os_error(errno, "recvmsg(fd %d)", fd());
      if (std::exchange(reset_seen, true)) return Arrival{Arrival::What::end, {}, {}};
      continue;
    }
    Arrival arrival{Arrival::What::packet, {}, take_fds(header)};
    if ((header.msg_flags & MSG_TRUNC) != 0)
      return make_error(ErrorKind::protocol, 0, "packet is over %zu bytes", kMaxMessageBytes);
    if ((header.msg_flags & MSG_CTRUNC) != 0)
      return make_error(ErrorKind::protocol, 0,
                        "only %zu fds of a packet arrived: more than %zu were sent, or this "
                        "process has no free fd number (RLIMIT_NOFILE)",
                        arrival.fds.size(), kMaxFds);
    // SOCK_SEQPACKET reports its end as it reports an empty packet, which nobody sends.
    if (got == 0) return Arrival{Arrival::What::end, {}, {}};
    arrival.bytes.assign(room.begin(), room.begin() + got);
    return arrival;
  }
}

void Connection::queue(OutPacket packet) {
  queued_bytes_ += queue_cost_bytes(packet);
  queue_.push_back(std::move(packet));
}

Result<Connection::Flushed> Connection::flush() {
  while (!queue_.empty()) {
    switch (const int code = send_packet(fd(), queue_.front())) {
      case 0:
        queued_bytes_ -= queue_cost_bytes(queue_.front());
        queue_.pop_front();
        continue;
      case EAGAIN:
        return Flushed::blocked;
      // unix(7): ETOOMANYREFS means that the user's fds in flight are over RLIMIT_NOFILE. Those
      // wait until receivers have taken some; the socket's writability says nothing about them.
      case ETOOMANYREFS:
      case ENOBUFS:
      case ENOMEM:
        return Flushed::starved;
      case EPIPE:
      case ECONNRESET:
      case ECONNREFUSED:
      case ENOTCONN: {
        Error error = os_error(code, "sendmsg(fd %d, %zu bytes, %zu fds)", fd(),
                               queue_.front().bytes.size(), queue_.front().fds.size());
        error.kind = ErrorKind::peer;
        return error;
      }
      default:
        return os_error(code, "sendmsg(fd %d, %zu bytes, %zu fds)", fd(),
                        queue_.front().bytes.size(), queue_.front().fds.size());
    }
  }
  return Flushed::all;
}

}  // namespace amem
