// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "cli/process_status.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/mutex.h"
#include "base/waiter.h"
#include "cli/failure.h"
#include "transport/peer_service.h"
#include "transport/socket_address.h"

namespace amem {
namespace {

/// Another `amem status` may query this command too. It replies with an empty object, which means:
/// not an amem process.
class Bystander : public PeerHandler {
 public:
  void speak_through(PeerService* service) {
    MutexLock lock(mutex_);
    service_ = service;
    for (const auto& [peer, request_id] : std::exchange(waiting_, {})) answer(peer, request_id);
  }
  void on_message(const PeerInfo& from, uint64_t request_id, Received received) override {
    if (!std::holds_alternative<StatusQuery>(received.message)) return;
    MutexLock lock(mutex_);
    // A request may arrive before start() has returned the service.
    if (service_ == nullptr)
      waiting_.emplace_back(from.instance, request_id);
    else
      answer(from.instance, request_id);
  }
  void on_peer_gone(const PeerInfo&) override {}

 private:
  void answer(const InstanceId& peer, uint64_t request_id) AMEM_REQUIRES(mutex_) {
    service_->reply(peer, request_id, StatusReply{"{}"}, {});
  }

  Mutex mutex_;
  PeerService* service_ AMEM_GUARDED_BY(mutex_) = nullptr;
  std::vector<std::pair<InstanceId, uint64_t>> waiting_ AMEM_GUARDED_BY(mutex_);
};

/// Also works for a process that accepts no more connections, because the kernel answers.
long pid_of(const InstanceId& instance) {
  const Result<UniqueFd> connection = dial(instance);
  if (!connection.ok()) return 0;
  const Result<pid_t> pid = pid_of_peer(connection.value().get());
  return pid.ok() ? pid.value() : 0;
}

std::optional<ProcessStatus> status_from(const Result<Received>& reply) {
  ProcessStatus out;
  if (!reply.ok()) {
    // No process listens at the address: it ended after its name was read.
    if (reply.error().kind == ErrorKind::peer) return std::nullopt;
    out.silence = reply.error().message;
    return out;
  }
  const auto* answer = std::get_if<StatusReply>(&reply.value().message);
  if (answer == nullptr) {
    out.silence = "the reply is not a StatusReply";
    return out;
  }
  if (answer->json == "{}") return std::nullopt;
  out.json = answer->json;
  return out;
}

}  // namespace

std::vector<ProcessStatus> ask_status(const std::set<InstanceId>& instances, long timeout_ms) {
  std::map<InstanceId, long> pids;
  for (const InstanceId& instance : instances) pids[instance] = pid_of(instance);

  Bystander handler;
  auto service = PeerService::start(random_instance_id(), handler);
  if (!service.ok()) throw Failure(kFailed, service.error().message);
  handler.speak_through(service.value().get());

  const Deadline deadline = Deadline::after_ms(timeout_ms);
  std::map<InstanceId, std::shared_ptr<Waiter<Result<Received>>>> replies;
  for (const InstanceId& instance : instances) {
    auto reply = std::make_shared<Waiter<Result<Received>>>();
    service.value()->call(instance, StatusQuery{}, {}, deadline,
                          [reply](Result<Received> outcome) { reply->give(std::move(outcome)); });
    replies[instance] = std::move(reply);
  }
  // Every call ends at its own deadline; the additional time is for the thread that reports it.
  const Deadline patience = Deadline::after_ms(timeout_ms + 1000);
  std::vector<ProcessStatus> out;
  for (const auto& [instance, pid] : pids) {
    const auto reply = replies.at(instance)->take(patience);
    auto status = reply
                      ? status_from(*reply)
                      : ProcessStatus{0, "", "the service thread of this command does not respond"};
    if (!status) continue;
    status->pid = pid;
    out.push_back(*std::move(status));
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.pid < b.pid; });
  return out;
}

}  // namespace amem
