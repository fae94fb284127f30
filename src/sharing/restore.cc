// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// The resume of an owner, for its importers: they map its memory again and open their gates.
#include <cerrno>

#include "sharing/exports.h"

namespace amem {

/// The restore of a tag for one process.
struct Exports::PendingRestore {
  const Tag tag;
  const InstanceId process;
  Deadline deadline;
  const uint64_t number;
  /// Null when the result is known, for a bystander, and for a call that waits.
  std::shared_ptr<Replies> replies;
  const std::string name{};  ///< of an importer; empty for the others

  /// Has no effect if the result is known.
  void settle(const Status& result) {
    if (const auto waiting = std::exchange(replies, nullptr)) waiting->settle(name, result);
  }
};

void Exports::send_restore(const std::shared_ptr<PendingRestore>& to) {
  context_.peers.load()->call(
      to->process, Restore{to->tag}, {}, to->deadline,
      [this, to](const Result<Received>& reply) { on_restored(to, reply); });
}

void Exports::on_restored(const std::shared_ptr<PendingRestore>& to,
                          const Result<Received>& reply) {
  MutexLock lock(context_.registry.mutex);
  OfTag& of_tag = tags_[to->tag];
  // A caller that waits fails, and its tag stays paused: the next resume restores all importers.
  // Without one, the memory is restored for a call of the process that waits.
  const bool is_awaited = to->replies != nullptr;
  if (reply.ok()) {
    const auto& restored = std::get<Restored>(reply.value().message);
    if (!restored.done && !is_awaited) of_tag.notified.insert(to->process);
    return to->settle(restored.done
                          ? ok_status()
                          : Error{ErrorKind::peer, 0,
                                  process_text(reply.value().pid, reply.value().remote_name) +
                                      " cannot map our memory again: " + restored.reason});
  }
  const Error& why = reply.error();
  // The process has ended.
  if (why.kind == ErrorKind::peer || (why.kind == ErrorKind::os && why.code == ECONNREFUSED))
    return to->settle(ok_status());
  const bool is_last = !of_tag.is_paused && to->number == of_tag.restores;
  // The gates of an importer open with this message. It is therefore sent again, after a connection
  // has broken, and to an importer that has not replied in time. It is in the importer's socket
  // then, so it is not sent a third time.
  if (is_last && has_broken(why) && !to->deadline.passed()) return send_restore(to);
  if (!is_awaited) of_tag.notified.insert(to->process);
  to->settle(why);
  if (!is_last || !is_awaited || why.kind != ErrorKind::timeout) return;
  constexpr long kOneDayMs = 24L * 3600 * 1000;
  to->deadline = Deadline::after_ms(kOneDayMs);
  send_restore(to);
}

void Exports::restore_for_call(const InstanceId& process, const Tag& tag) {
  MutexLock lock(context_.registry.mutex);
  const auto of_tag = tags_.find(tag);  // a peer may name any
  if (of_tag == tags_.end() || of_tag->second.is_paused ||
      of_tag->second.notified.erase(process) == 0)
    return;
  send_restore(std::make_shared<PendingRestore>(PendingRestore{
      tag, process, Deadline::after_ms(context_.timeout_ms), of_tag->second.restores, nullptr}));
}

std::shared_ptr<Replies> Exports::restore(const Tags& tags, Deadline deadline) {
  auto replies = std::make_shared<Replies>();
  for (const Tag& tag : tags) {
    MutexLock lock(context_.registry.mutex);
    restore(tag, deadline, replies);
  }
  return replies;
}

void Exports::restore(const Tag& tag, Deadline deadline, const std::shared_ptr<Replies>& replies) {
  OfTag& of_tag = tags_[tag];
  of_tag.is_paused = false;
  ++of_tag.restores;
  std::set<InstanceId> importing;
  for (auto& [id, backing] : context_.registry.backings()) {
    if (backing.tag != tag) continue;
    backing.is_staying = false;
    importing.merge(importers(backing));
  }
  for (const InstanceId& importer : importing) {
    of_tag.notified.erase(importer);
    const std::string name = name_of(importer);
    replies->expect(name);
    send_restore(std::make_shared<PendingRestore>(
        PendingRestore{tag, importer, deadline, of_tag.restores, replies, name}));
  }
  const Deadline notified_by = Deadline::after_ms(context_.timeout_ms);
  for (const InstanceId& process : std::exchange(of_tag.notified, {}))
    send_restore(std::make_shared<PendingRestore>(
        PendingRestore{tag, process, notified_by, of_tag.restores, nullptr}));
}

}  // namespace amem
