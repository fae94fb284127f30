// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "transport/peer_service.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/log.h"
#include "base/thread.h"

namespace amem {
namespace {

constexpr uint64_t kEventToken = 1;

/// Refuses a message for which a peer would close the connection.
Result<Packet> packet_of(Role role, uint64_t request_id, Message message,
                         std::vector<UniqueFd> fds) {
  if (role_of(message) != role || fds.size() != fds_of(message))
    return misuse_error("%s is sent as a message of another role, or with %zu descriptors, not %zu",
                        name_of(message), fds.size(), fds_of(message));
  std::vector<uint8_t> bytes = AMEM_TRY(encode(request_id, std::move(message)));
  return Packet{std::move(bytes), std::move(fds)};
}

}  // namespace

Result<std::unique_ptr<PeerService>> PeerService::start(InstanceId self, PeerHandler& handler,
                                                        const PeerOptions& options) {
  std::unique_ptr<PeerService> service(new PeerService(self));
  AMEM_TRY(service->open(Hello{self}, handler, options));
  service->thread_ =
      AMEM_TRY(start_thread("amem-peers", [started = service.get()] { started->run(); }));
  return service;
}

Status PeerService::open(const Hello& self, PeerHandler& handler, const PeerOptions& options) {
  epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_.valid()) return os_error(errno, "epoll_create1()");
  UniqueFd event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event.valid()) return os_error(errno, "eventfd()");
  event_.emplace(AMEM_TRY(WatchedFd::create(epoll_.get(), kEventToken, std::move(event))));
  links_ = AMEM_TRY(PeerLinks::create(self, handler, options, epoll_.get()));
  return ok_status();
}

PeerService::~PeerService() {
  stop();
  if (links_ != nullptr) withdraw();
}

void PeerService::stop() {
  if (!thread_) return;
  stopped_ = true;
  wake();
  pthread_join(*thread_, nullptr);
  thread_.reset();
}

void PeerService::run() {
  std::array<epoll_event, 64> events;
  for (;;) {
    // Before stopped_ and orders_ are read: what changes afterwards ends the wait.
    uint64_t changes;
    [[maybe_unused]] const ssize_t got = read(event_->get(), &changes, sizeof changes);
    if (stopped_) break;
    for (Order& order : take_orders()) carry_out(std::move(order));
    links_->on_time();
    const std::optional<Deadline> next = links_->next_time();
    // The application may have closed them, and its own files may have the numbers.
    const int epoll = event_->get() < 0 ? -1 : epoll_.get();
    const int count = epoll_wait(epoll, events.data(), static_cast<int>(events.size()),
                                 next ? next->left_ms() : -1);
    if (count < 0 && errno != EINTR) {
      AMEM_LOG(error, -1, "this process has closed the file descriptors of amem");
      break;
    }
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<size_t>(i)];
      if (event.data.u64 != kEventToken) links_->on_event(event.data.u64, event.events);
    }
  }
  const Error ended = misuse_error("the peer service of this process has ended");
  links_->fail_all(ended);
  // Repeated until there is none: `done` may make another call.
  for (std::vector<Order> left = take_orders(); !left.empty(); left = take_orders())
    for (Order& order : left)
      if (order.call) order.call->done(ended);
}

void PeerService::post(Order order) {
  MutexLock lock(queue_.mutex);
  queue_.orders.push_back(std::move(order));
  wake();
}

std::vector<PeerService::Order> PeerService::take_orders() {
  MutexLock lock(queue_.mutex);
  return std::exchange(queue_.orders, {});
}

void PeerService::wake() {
  const uint64_t one = 1;
  // Fails only if the counter is at its maximum; it is readable then (eventfd(2)).
  [[maybe_unused]] const ssize_t written = write(event_->get(), &one, sizeof one);
}

void PeerService::carry_out(Order order) {
  if (order.change) {
    order.change(*links_);
  } else if (!order.packet.ok()) {
    const Error& why = order.packet.error();
    AMEM_LOG(error, -1, "nothing was sent to instance %s: %s", order.peer.hex().c_str(),
             why.message.c_str());
    if (order.call) order.call->done(why);
  } else if (order.call) {
    links_->call(order.peer, order.request_id, std::move(*order.call),
                 std::move(order.packet.value()));
  } else if (order.is_reply) {
    links_->reply(order.peer, std::move(order.packet.value()));
  } else {
    links_->send(order.peer, std::move(order.packet.value()));
  }
}

void PeerService::call(const InstanceId& peer, Message message, std::vector<UniqueFd> fds,
                       Deadline deadline, CallDone done) {
  const uint64_t request_id = ++last_request_id_;
  PeerLinks::Call call{message.index(), deadline, std::move(done)};
  post({peer, false, packet_of(Role::request, request_id, std::move(message), std::move(fds)),
        request_id, std::move(call)});
}

void PeerService::reply(const InstanceId& peer, uint64_t request_id, Message message,
                        std::vector<UniqueFd> fds) {
  post({peer, true, packet_of(Role::reply, request_id, std::move(message), std::move(fds))});
}

void PeerService::send(const InstanceId& peer, Message message, std::vector<UniqueFd> fds) {
  post({peer, false, packet_of(Role::notice, 0, std::move(message), std::move(fds))});
}

Result<HostAddress> PeerService::open_to_hosts(const JobKey& key, const std::string& interfaces) {
  HostAddress self;
  auto listener = std::make_shared<UniqueFd>(AMEM_TRY(listen_for_hosts(interfaces, &self)));
  post({{}, false, Packet{}, 0, {}, [=, port = self.port](PeerLinks& links) {
          links.open_to_hosts(std::move(*listener), key, port);
        }});
  return self;
}

void PeerService::locate(const InstanceId& peer, const HostAddress& address) {
  post({{}, false, Packet{}, 0, {}, [=](PeerLinks& links) { links.locate(peer, address); }});
}

void PeerService::withdraw() {
  if (getpid() == started_by_) unlink(socket_path(self_).c_str());
}

}  // namespace amem
