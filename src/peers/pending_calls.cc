// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "peers/pending_calls.h"

#include <algorithm>
#include <utility>

namespace amem {

template <typename Chosen>
std::map<uint64_t, PendingCalls::Call> PendingCalls::extract(Chosen chosen) {
  std::map<uint64_t, Call> out;
  for (auto it = calls_.begin(); it != calls_.end();) {
    const auto next = std::next(it);
    if (chosen(it->first, it->second)) out.insert(calls_.extract(it));
    it = next;
  }
  return out;
}

Status PendingCalls::complete(const InstanceId& peer, uint64_t request_id, Received reply) {
  const auto found = calls_.find(request_id);
  if (found == calls_.end() || found->second.peer != peer) return ok_status();
  Call call = std::move(found->second);
  calls_.erase(found);
  if (!answers(reply.message, call.request)) {
    Error wrong = make_error(ErrorKind::protocol, 0, "%s answered with %s", name_of(call.request),
                             name_of(reply.message));
    call.done(wrong);
    return wrong;
  }
  call.done(std::move(reply));
  return ok_status();
}

void PendingCalls::fail_peer(const InstanceId& peer, uint64_t last_id, const Error& why) {
  const auto chosen = [&](uint64_t id, const Call& call) {
    return id <= last_id && call.peer == peer;
  };
  for (auto& [id, call] : extract(chosen)) call.done(why);
}

void PendingCalls::fail_restores(const InstanceId& peer, const Error& why) {
  const auto chosen = [&](uint64_t, const Call& call) {
    return call.peer == peer && std::holds_alternative<Restore>(call.request);
  };
  for (auto& [id, call] : extract(chosen)) call.done(why);
}

void PendingCalls::fail_all(const Error& why) {
  for (auto& [id, call] : std::exchange(calls_, {})) call.done(why);
}

void PendingCalls::expire(const std::function<std::string(const InstanceId&)>& who) {
  for (auto& [id, call] :
       extract([](uint64_t, const Call& call) { return call.deadline.passed(); }))
    call.done(make_error(ErrorKind::timeout, 0, "%s did not answer %s before the deadline",
                         who(call.peer).c_str(), name_of(call.request)));
}

std::optional<Deadline::Clock::time_point> PendingCalls::next_deadline() const {
  std::optional<Deadline::Clock::time_point> next;
  for (const auto& [id, call] : calls_)
    if (!next || call.deadline.at() < *next) next = call.deadline.at();
  return next;
}

bool PendingCalls::any_for(const InstanceId& peer) const {
  return std::any_of(calls_.begin(), calls_.end(),
                     [&](const auto& entry) { return entry.second.peer == peer; });
}

}  // namespace amem
