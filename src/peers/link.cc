// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "peers/link.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

namespace amem {
namespace {

/// How long the kernel gets to find memory.
constexpr std::chrono::milliseconds kStarvedPause{10};

}  // namespace

Result<std::unique_ptr<Link>> Link::create(int epoll, uint64_t token, TrackedFd socket, pid_t pid) {
  std::unique_ptr<Link> link(new Link(epoll, token, std::move(socket), pid));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = token;
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, link->connection_.fd(), &event) != 0)
    return os_error(errno, "epoll_ctl(EPOLL_CTL_ADD)");
  return link;
}

// By hand: the kernel keeps watching a closed socket of which a forked child holds a copy.
Link::~Link() { epoll_ctl(epoll_, EPOLL_CTL_DEL, connection_.fd(), nullptr); }

void Link::fail(Error why) {
  if (failure_) return;
  why.message = "pid " + std::to_string(pid) + ": " + why.message;
  failure_ = std::move(why);
}

void Link::send(OutPacket packet, size_t max_queued_bytes) {
  connection_.queue(std::move(packet));
  if (!wants_writable_ && !flush_again_at_) flush();
  if (connection_.queued_bytes() > max_queued_bytes)
    fail(make_error(ErrorKind::os, ENOBUFS, "it does not read: %zu bytes wait for it",
                    connection_.queued_bytes()));
}

void Link::flush() {
  flush_again_at_.reset();
  Result<Connection::Flushed> left = connection_.flush();
  const bool blocked = left.ok() && left.value() == Connection::Flushed::blocked;
  if (left.ok() && left.value() == Connection::Flushed::starved)
    flush_again_at_ = Deadline::Clock::now() + kStarvedPause;
  if (std::exchange(wants_writable_, blocked) != blocked) watch();
  // One that has not said Hello may have left it, and more, for us to read before it closed.
  if (!left.ok() && peer) fail(std::move(left.error()));
}

void Link::watch() {
  epoll_event event{};
  if (!read_again_at_) event.events |= EPOLLIN;
  if (wants_writable_) event.events |= EPOLLOUT;
  event.data.u64 = token;
  // Otherwise a packet that waits for room, or for us, would wait for ever.
  if (epoll_ctl(epoll_, EPOLL_CTL_MOD, connection_.fd(), &event) != 0)
    read_again_at_ = Deadline::Clock::now() + kStarvedPause;
}

std::optional<Arrival> Link::receive() {
  if (failure_ && failure_->kind != ErrorKind::peer) return std::nullopt;
  Result<Arrival> arrival = connection_.receive();
  if (!arrival.ok()) {
    fail(std::move(arrival.error()));
    return std::nullopt;
  }
  switch (arrival.value().what) {
    case Arrival::What::packet:
      return std::move(arrival.value());
    case Arrival::What::starved:
      read_again_at_ = Deadline::Clock::now() + kStarvedPause;
      watch();
      break;
    case Arrival::What::end:
      fail(make_error(ErrorKind::peer, 0, "it closed the connection"));
      break;
    case Arrival::What::nothing:
      break;
  }
  return std::nullopt;
}

void Link::on_time(TimePoint now) {
  if (flush_again_at_ && *flush_again_at_ <= now) flush();
  if (read_again_at_ && *read_again_at_ <= now) {
    read_again_at_.reset();
    watch();
  }
}

std::optional<Link::TimePoint> Link::next_time() const {
  std::optional<TimePoint> next;
  for (const auto& time : {flush_again_at_, read_again_at_, hello_by})
    if (time && (!next || *time < *next)) next = time;
  return next;
}

}  // namespace amem
