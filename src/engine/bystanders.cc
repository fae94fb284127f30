// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "engine/bystanders.h"

#include <cerrno>

#include "base/log.h"
#include "peers/socket_address.h"

namespace amem {

void Bystanders::find_processes(const std::vector<ScopeId>& scope) {
  if (scope == looked_for_) return;
  Result<std::set<InstanceId>> found = instances_of_this_user();
  if (!found.ok()) {
    AMEM_LOG(warn, -1, "members of this process' scope cannot be told that it pauses: %s",
             found.error().message.c_str());
    return;
  }
  processes_ = std::move(found.value());
  processes_.erase(context_.self);
  looked_for_ = scope;
}

std::shared_ptr<Replies> Bystanders::announce_away(const std::vector<ScopeId>& scope,
                                                   const std::set<InstanceId>& informed,
                                                   Deadline deadline) {
  auto heard = std::make_shared<Replies>();
  PeerService* const peers = context_.peers.load();
  if (peers == nullptr || scope.empty()) return heard;
  find_processes(scope);
  for (const InstanceId& process : processes_) {
    if (informed.contains(process)) continue;
    const Replies::Ticket ticket = heard->expect(name_of_peer(context_, process));
    peers->call(process, Away{scope}, {}, deadline,
                [heard, ticket](const Result<Received>&) { heard->succeeded(ticket); });
    told_.insert(process);
  }
  return heard;
}

/// Again when its connection broke on the way: its calls would wait for us for ever.
void Bystanders::send_back(const InstanceId& process, Deadline deadline) {
  context_.peers.load()->call(process, Restore{{}, true}, {}, deadline,
                              [this, process, deadline](const Result<Received>& reply) {
                                const bool broke = !reply.ok() &&
                                                   reply.error().kind == ErrorKind::os &&
                                                   reply.error().code == ECONNRESET;
                                if (broke && !deadline.passed()) send_back(process, deadline);
                              });
}

void Bystanders::announce_back(const std::set<InstanceId>& informed) {
  for (const InstanceId& process : told_) {
    if (informed.contains(process)) continue;
    send_back(process, Deadline::after_ms(context_.timeout_ms));
  }
  told_.clear();
}

}  // namespace amem
