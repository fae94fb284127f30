// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "peers/peer_service.h"

#include <optional>
#include <utility>

#include "base/thread.h"
#include "base/waiter.h"
#include "peers/service_loop.h"

namespace amem {
namespace {

/// How long call_and_wait() gives the service thread beyond the deadline to say that it has passed.
constexpr long kGraceMs = 1000;

Error forgotten_error() {
  return make_error(ErrorKind::misuse, 0, "the peer service belongs to the parent of this process");
}

}  // namespace

PeerService::PeerService(std::unique_ptr<ServiceLoop> loop) : loop_(std::move(loop)) {}

void* PeerService::thread_main(void* loop) {
  static_cast<ServiceLoop*>(loop)->run();
  return nullptr;
}

Result<std::unique_ptr<PeerService>> PeerService::start(InstanceId self, int32_t group,
                                                        PeerHandler& handler, PeerOptions options) {
  Result<std::unique_ptr<ServiceLoop>> loop =
      ServiceLoop::create(Hello{self, group}, handler, std::move(options));
  if (!loop.ok()) return std::move(loop.error());
  std::unique_ptr<PeerService> service(new PeerService(std::move(loop.value())));

  const Result<pthread_t> thread = start_thread("amem-peers", thread_main, service->loop_.get());
  if (!thread.ok()) return thread.error();
  service->thread_ = thread.value();
  service->running_ = true;
  return service;
}

PeerService::~PeerService() {
  if (forgotten_.load(std::memory_order_relaxed)) {
    // Its fd numbers may be somebody else's by now, and its locks may be held by no thread at all.
    static_cast<void>(loop_.release());
    return;
  }
  stop();
}

void PeerService::stop() {
  if (!std::exchange(running_, false)) return;
  loop_->stop();
  pthread_join(thread_, nullptr);
}

void PeerService::call(const InstanceId& peer, Message message, std::vector<UniqueFd> fds,
                       Deadline deadline, std::function<void(Result<Received>)> done) {
  if (forgotten_.load(std::memory_order_relaxed)) return done(forgotten_error());
  loop_->post(Order{Order::Kind::call, peer, std::move(message),
                    track(loop_->ledger(), std::move(fds)), 0, deadline, std::move(done)});
}

Result<Received> PeerService::call_and_wait(const InstanceId& peer, Message message,
                                            std::vector<UniqueFd> fds, Deadline deadline) {
  if (forgotten_.load(std::memory_order_relaxed)) return forgotten_error();
  if (loop_->on_its_thread())
    return make_error(ErrorKind::misuse, 0, "%s: the service thread must not wait for a reply",
                      name_of(message));
  const auto reply = std::make_shared<Waiter<Result<Received>>>();
  const std::string name = name_of(message);
  call(peer, std::move(message), std::move(fds), deadline,
       [reply](Result<Received> outcome) { reply->give(std::move(outcome)); });
  if (auto outcome = reply->take(Deadline::after_ms(deadline.left_ms() + kGraceMs)))
    return std::move(*outcome);
  return make_error(ErrorKind::timeout, 0,
                    "%s to instance %s: the service thread of this process is held up",
                    name.c_str(), peer.hex().c_str());
}

void PeerService::reply(const InstanceId& peer, uint64_t request_id, Message message,
                        std::vector<UniqueFd> fds) {
  if (forgotten_.load(std::memory_order_relaxed)) return;
  loop_->post(Order{Order::Kind::reply, peer, std::move(message),
                    track(loop_->ledger(), std::move(fds)), request_id, std::nullopt, nullptr});
}

void PeerService::send(const InstanceId& peer, Message message, std::vector<UniqueFd> fds) {
  if (forgotten_.load(std::memory_order_relaxed)) return;
  loop_->post(Order{Order::Kind::notice, peer, std::move(message),
                    track(loop_->ledger(), std::move(fds)), 0, std::nullopt, nullptr});
}

std::optional<PeerInfo> PeerService::find(const InstanceId& instance) const {
  if (forgotten_.load(std::memory_order_relaxed)) return std::nullopt;
  return loop_->directory().find(instance);
}

std::vector<PeerInfo> PeerService::peers() const {
  if (forgotten_.load(std::memory_order_relaxed)) return {};
  return loop_->directory().all();
}

void PeerService::withdraw() {
  if (getpid() == started_by_) loop_->withdraw();
}

void PeerService::forget_after_fork() {
  forgotten_.store(true, std::memory_order_relaxed);
  loop_->ledger().close_all();
}

}  // namespace amem
