// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "transport/connection.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "transport/message.h"

namespace amem {
namespace {

/// A buffer for one SCM_RIGHTS message, aligned for CMSG_FIRSTHDR.
struct alignas(cmsghdr) ControlRoom {
  std::array<char, CMSG_SPACE(kMaxFds * sizeof(int))> bytes;
};

/// Takes all descriptors of a packet, so that none is left open.
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

/// recvmsg(2). If a peer closes before it has read everything, ECONNRESET is reported once, before
/// the packets that it has sent (unix(7); Linux net/unix/af_unix.c, unix_release_sock).
ssize_t receive_once(int socket, msghdr& header) {
  const size_t control_bytes = header.msg_controllen;
  for (int resets = 0; resets < 2; ++resets) {
    header.msg_controllen = control_bytes;
    const ssize_t got = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got >= 0 || errno != ECONNRESET) return got;
  }
  return 0;
}

}  // namespace

int send_packet(int socket, const Packet& packet) {
  iovec data{const_cast<uint8_t*>(packet.bytes.data()), packet.bytes.size()};
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
  return sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? errno : 0;
}

Result<std::optional<Packet>> receive_packet(int socket) {
  std::array<uint8_t, kMaxMessageBytes> room;
  ControlRoom control;
  iovec data{room.data(), room.size()};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control.bytes.data();
  header.msg_controllen = control.bytes.size();
  const ssize_t got = receive_once(socket, header);
  // After these nothing is lost: epoll reports the packet until it is received.
  if (got < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOMEM || errno == ENOBUFS))
    return std::optional<Packet>();
  if (got < 0) return os_error(errno, "recvmsg(fd %d)", socket);
  Packet packet{{}, take_fds(header)};
  if ((header.msg_flags & MSG_TRUNC) != 0)
    return protocol_error("packet is over %zu bytes", kMaxMessageBytes);
  if ((header.msg_flags & MSG_CTRUNC) != 0)
    return protocol_error(
        "only %zu fds of a packet arrived: more than %zu were sent, or this "
        "process has no free fd number (RLIMIT_NOFILE)",
        packet.fds.size(), kMaxFds);
  // SOCK_SEQPACKET reports its end like an empty packet, which is never sent.
  if (got == 0) return peer_error("it closed the connection");
  packet.bytes.assign(room.begin(), room.begin() + got);
  return std::optional(std::move(packet));
}

Result<WatchedFd> WatchedFd::create(int epoll, uint64_t token, UniqueFd fd) {
  epoll_event event{EPOLLIN, {.u64 = token}};
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd.get(), &event) != 0)
    return os_error(errno, "epoll_ctl(EPOLL_CTL_ADD, fd %d)", fd.get());
  return WatchedFd(epoll, token, std::move(fd));
}

// Explicitly: the kernel keeps a closed file in the set while a forked child holds a copy.
WatchedFd::~WatchedFd() {
  if (get() >= 0) epoll_ctl(epoll_, EPOLL_CTL_DEL, get(), nullptr);
}

Status WatchedFd::watch(uint32_t events) {
  epoll_event event{events, {.u64 = token_}};
  if (epoll_ctl(epoll_, EPOLL_CTL_MOD, get(), &event) != 0)
    return os_error(errno, "epoll_ctl(EPOLL_CTL_MOD, fd %d)", fd_.get());
  return ok_status();
}

void Connection::send(Packet packet) {
  queue_.push_back(std::move(packet));
  if (!blocked_ && !stalled_) flush();
}

void Connection::flush() {
  int code = 0;
  const auto send_first = [this] {
    return stream ? stream->send(fd(), queue_.front()) : send_packet(fd(), queue_.front());
  };
  while (!queue_.empty() && (code = send_first()) == 0) queue_.pop_front();
  // unix(7): ETOOMANYREFS means that the user's descriptors in flight exceed RLIMIT_NOFILE. They
  // wait until receivers have taken some, independent of whether the socket is writable.
  stalled_ = code == ETOOMANYREFS || code == ENOBUFS || code == ENOMEM || code == EINTR;
  const bool blocked = code == EAGAIN;
  if (code != 0 && !stalled_ && !blocked && code != EINPROGRESS) return shut_down();
  if (std::exchange(blocked_, blocked) == blocked) return;
  const uint32_t writable = blocked ? uint32_t{EPOLLOUT} : 0;
  if (!socket_.watch(EPOLLIN | writable).ok()) shut_down();
}

Result<std::optional<Packet>> Connection::receive() {
  if (!stream) return receive_packet(fd());
  const bool had_greeting = stream->has_greeting();
  Result<std::optional<Packet>> packet = stream->receive(fd());
  if (stream->has_greeting() && !had_greeting) flush();
  return packet;
}

void Connection::shut_down() {
  queue_.clear();
  stalled_ = false;
  shutdown(fd(), SHUT_RDWR);
}

}  // namespace amem
