// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "peers/service_loop.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include "base/log.h"
#include "peers/socket_address.h"

namespace amem {
namespace {

constexpr uint64_t kMailboxToken = 1;
constexpr uint64_t kListenerToken = 2;
constexpr int kAcceptsPerTurn = 64;
constexpr long kAcceptPauseMs = 100;

pid_t thread_id() { return static_cast<pid_t>(syscall(SYS_gettid)); }

Status watch_readable(int epoll, int fd, uint64_t token) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = token;
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0)
    return os_error(errno, "epoll_ctl(EPOLL_CTL_ADD, fd %d)", fd);
  return ok_status();
}

/// A message of the same type with nothing in it.
Message blank_like(const Message& message) {
  return std::visit([](const auto& body) { return Message(std::decay_t<decltype(body)>{}); },
                    message);
}

Role role_for(Order::Kind kind) {
  switch (kind) {
    case Order::Kind::call:
      return Role::request;
    case Order::Kind::reply:
      return Role::reply;
    case Order::Kind::notice:
      break;
  }
  return Role::notice;
}

/// Refuses what no peer would accept, before it costs us the connection.
Status check(const Order& order) {
  if (role_of(order.message) != role_for(order.kind))
    return make_error(ErrorKind::misuse, 0, "%s sent as what it is not", name_of(order.message));
  if (order.fds.size() != fds_of(order.message))
    return make_error(ErrorKind::misuse, 0, "%s with %zu fds instead of %zu",
                      name_of(order.message), order.fds.size(), fds_of(order.message));
  return ok_status();
}

}  // namespace

ServiceLoop::ServiceLoop(const Hello& self, PeerHandler& handler, PeerOptions options)
    : self_(self), handler_(handler), options_(std::move(options)) {}

Result<std::unique_ptr<ServiceLoop>> ServiceLoop::create(const Hello& self, PeerHandler& handler,
                                                         PeerOptions options) {
  std::unique_ptr<ServiceLoop> loop(new ServiceLoop(self, handler, std::move(options)));
  AMEM_TRY(loop->open());
  return loop;
}

Status ServiceLoop::open() {
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return os_error(errno, "epoll_create1()");
  epoll_.emplace(ledger_, std::move(epoll));

  Result<std::unique_ptr<Mailbox>> mailbox = Mailbox::create(ledger_);
  if (!mailbox.ok()) return std::move(mailbox.error());
  mailbox_ = std::move(mailbox.value());
  AMEM_TRY(watch_readable(epoll_->get(), mailbox_->event_fd(), kMailboxToken));

  Result<UniqueFd> listener = listen_at(self_.instance);
  if (!listener.ok()) return std::move(listener.error());
  listener_.emplace(ledger_, std::move(listener.value()));
  AMEM_TRY(watch_readable(epoll_->get(), listener_->get(), kListenerToken));

  links_ = std::make_unique<PeerLinks>(PeerLinks::Surroundings{self_, handler_, options_, ledger_,
                                                               epoll_->get(), calls_, directory_});
  return ok_status();
}

void ServiceLoop::withdraw() {
  if (listener_) unlink(socket_path(self_.instance).c_str());
}

bool ServiceLoop::on_its_thread() const {
  return thread_.load(std::memory_order_relaxed) == thread_id();
}

void ServiceLoop::run() {
  thread_.store(thread_id(), std::memory_order_relaxed);
  std::array<epoll_event, 64> events;
  while (!mailbox_->stopped()) {
    const int count =
        epoll_wait(epoll_->get(), events.data(), static_cast<int>(events.size()), wait_ms());
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<size_t>(i)];
      if (event.data.u64 == kListenerToken) accept_some();
      if (event.data.u64 >= PeerLinks::kFirstToken) links_->on_event(event.data.u64, event.events);
    }
    for (Order& order : mailbox_->take()) carry_out(std::move(order));
    links_->on_time(Deadline::Clock::now());
    links_->reap();
    calls_.expire([this](const InstanceId& peer) { return links_->describe(peer); });
    watch_listener();
  }
  const Error ended =
      make_error(ErrorKind::misuse, 0, "the peer service of this process has ended");
  calls_.fail_all(ended);
  // Again until none comes: a `done` may have made one more call.
  for (std::vector<Order> left = mailbox_->take(); !left.empty(); left = mailbox_->take())
    for (Order& order : left)
      if (order.done) order.done(ended);
}

/// For epoll_wait(2): -1 when only events matter, else milliseconds, rounded up.
int ServiceLoop::wait_ms() const {
  std::optional<Deadline::Clock::time_point> next = links_->next_time();
  const auto call = calls_.next_deadline();
  if (call && (!next || *call < *next)) next = call;
  if (accept_again_ && (!next || accept_again_->at() < *next)) next = accept_again_->at();
  if (!next) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*next - Deadline::Clock::now());
  return static_cast<int>(std::clamp<long>(left.count(), 0, 1 << 30));
}

void ServiceLoop::accept_some() {
  for (int taken = 0; taken < kAcceptsPerTurn && links_->has_room(); ++taken) {
    UniqueFd socket(accept4(listener_->get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket.valid()) {
      links_->accept(std::move(socket));
    } else if (errno == EAGAIN) {
      return;
    } else if (errno != EINTR && errno != ECONNABORTED) {
      // No fd or no memory is free: whoever dials waits in the listener's queue until there is.
      AMEM_LOG(warn, -1, "%s", os_error(errno, "accept4()").message.c_str());
      accept_again_ = Deadline::after_ms(kAcceptPauseMs);
      return;
    }
  }
}

/// A connection that there is no room for is left in the listener's queue, not refused: the one who
/// dialled would take us for dead.
void ServiceLoop::watch_listener() {
  if (accept_again_ && accept_again_->passed()) accept_again_.reset();
  const bool listen = links_->has_room() && !accept_again_;
  if (listen == listening_) return;
  epoll_event event{};
  if (listen) event.events = EPOLLIN;
  event.data.u64 = kListenerToken;
  if (epoll_ctl(epoll_->get(), EPOLL_CTL_MOD, listener_->get(), &event) == 0) {
    listening_ = listen;
  } else {
    accept_again_ = Deadline::after_ms(kAcceptPauseMs);
  }
}

void ServiceLoop::carry_out(Order order) {
  if (order.kind == Order::Kind::call) return call(std::move(order));
  const char* name = name_of(order.message);
  const Status checked = check(order);
  Result<std::vector<uint8_t>> bytes = checked.ok()
                                           ? encode(order.request_id, std::move(order.message))
                                           : Result<std::vector<uint8_t>>(checked.error());
  if (!bytes.ok()) {
    AMEM_LOG(error, -1, "%s to instance %s was not sent: %s", name, order.peer.hex().c_str(),
             bytes.error().message.c_str());
    return;
  }
  links_->deliver(
      order.peer, OutPacket{std::move(bytes.value()), std::move(order.fds)},
      order.kind == Order::Kind::reply ? PeerLinks::Reach::connected_only : PeerLinks::Reach::dial);
}

void ServiceLoop::call(Order order) {
  if (Status checked = check(order); !checked.ok()) return order.done(std::move(checked.error()));
  if (order.deadline->passed())
    return order.done(make_error(ErrorKind::timeout, 0, "%s to %s was not sent: deadline passed",
                                 name_of(order.message), links_->describe(order.peer).c_str()));
  const uint64_t request_id = next_request_id_++;
  Message blank = blank_like(order.message);
  Result<std::vector<uint8_t>> bytes = encode(request_id, std::move(order.message));
  if (!bytes.ok()) return order.done(std::move(bytes.error()));
  calls_.add(request_id, PendingCalls::Call{order.peer, std::move(blank), *order.deadline,
                                            std::move(order.done)});
  links_->deliver(order.peer, OutPacket{std::move(bytes.value()), std::move(order.fds)},
                  PeerLinks::Reach::dial);
}

}  // namespace amem
