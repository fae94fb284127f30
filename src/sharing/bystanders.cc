// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// The processes that share a scope with this one but import none of its memory.
#include <algorithm>

#include "base/log.h"
#include "sharing/exports.h"
#include "transport/socket_address.h"

namespace amem {
namespace {

/// The maximum wait of a pause for the answer of a bystander that uses no memory of this process.
constexpr int kMomentMs = 200;

void on_quiesced(const Result<Received>& reply, Replies& replies) {
  if (!reply.ok() && reply.error().kind == ErrorKind::peer)
    return replies.succeeded();  // has ended
  if (!reply.ok())
    return replies.failed(
        "a process may use multicast memory of this process: " + reply.error().message,
        reply.error().kind);
  const auto& answer = std::get<PauseNoticeReply>(reply.value().message);
  if (answer.quiesced) return replies.succeeded();
  replies.failed(process_text(reply.value().pid) +
                 " may use multicast memory of this process: " + answer.reason);
}

}  // namespace

Status Exports::find_processes(const Scope& scope) {
  if (scope == looked_for_) return ok_status();
  processes_ = AMEM_TRY(instances_of_this_user());
  processes_.erase(context_.self);
  looked_for_ = scope;
  return ok_status();
}

void Exports::tell_bystanders(const Tag& tag, const Scope& scope,
                              const std::map<InstanceId, Importer>& importers, bool bound,
                              Deadline deadline, const std::shared_ptr<Replies>& replies) {
  PeerService* const peers = context_.peers.load();
  if (peers == nullptr || scope.empty()) return;
  if (const Status found = find_processes(scope); !found.ok()) {
    const std::string text = "members of this process' scope cannot be notified that it pauses: " +
                             found.error().message;
    AMEM_LOG(warn, -1, "%s", text.c_str());
    if (!bound) return;
    replies->expect();
    return replies->failed(text, found.error().kind);
  }
  MutexLock lock(context_.registry.mutex);
  for (const InstanceId& process : processes_) {
    if (importers.contains(process) && importers.at(process).tags.contains(tag)) continue;
    tags_[tag].bystanders.insert(process);
    replies->expect();
    if (bound) {
      // The bystander's deadline is earlier, as that of a revoke.
      const auto quiesce_ms = static_cast<uint32_t>(std::max(1LL, deadline.left_ms() * 9LL / 10));
      peers->call(process, PauseNotice{tag, scope, quiesce_ms}, {}, deadline,
                  [replies](const Result<Received>& reply) { on_quiesced(reply, *replies); });
    } else {
      peers->call(process, PauseNotice{tag, scope}, {},
                  Deadline::after_ms(std::min(kMomentMs, deadline.left_ms())),
                  [replies](const Result<Received>&) { replies->succeeded(); });
    }
  }
}

}  // namespace amem
