// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sharing/bystanders.h"

#include <algorithm>
#include <cerrno>

#include "base/log.h"
#include "transport/socket_address.h"

namespace amem {

namespace {

/// How long a pause waits for a process that does not answer and may share the scope.
constexpr int kMomentMs = 200;

}  // namespace

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

void Bystanders::announce_away(const Tag& tag, const std::vector<ScopeId>& scope,
                               const std::set<InstanceId>& informed, Deadline deadline,
                               const std::shared_ptr<Replies>& replies) {
  if (context_.peers.load() == nullptr || scope.empty()) return;
  find_processes(scope);
  for (const InstanceId& process : processes_) {
    if (informed.contains(process)) continue;
    replies->expect();
    context_.peers.load()->call(process, Away{tag, scope}, {},
                                Deadline::after_ms(std::min(kMomentMs, deadline.left_ms())),
                                [replies](const Result<Received>&) { replies->succeeded(); });
    told_[tag].insert(process);
  }
}

/// Again when its connection broke on the way: its calls would wait for us for ever.
void Bystanders::send_back(const Tag& tag, const InstanceId& process, Deadline deadline) {
  context_.peers.load()->call(process, Restore{tag, {}, true}, {}, deadline,
                              [this, tag, process, deadline](const Result<Received>& reply) {
                                const bool broke = !reply.ok() &&
                                                   reply.error().kind == ErrorKind::os &&
                                                   reply.error().code == ECONNRESET;
                                if (broke && !deadline.passed()) send_back(tag, process, deadline);
                              });
}

void Bystanders::announce_back(const Tag& tag, const std::set<InstanceId>& informed) {
  for (const InstanceId& process : told_[tag]) {
    if (informed.contains(process)) continue;
    send_back(tag, process, Deadline::after_ms(context_.timeout_ms));
  }
  told_[tag].clear();
}

}  // namespace amem
