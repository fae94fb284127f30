// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// The resume of an owner, for its importers: they map its memory again and open their gates.
#include <algorithm>
#include <cerrno>

#include "sharing/exports.h"

namespace amem {

/// The restore of a tag for one importer, sent in parts: the next one when this one is mapped.
struct Exports::PendingRestore {
  const Tag tag;
  const InstanceId importer;
  Deadline deadline;
  const uint64_t number;
  /// Null when the result is known.
  std::shared_ptr<Replies> replies;
  std::vector<BackingId> backings;     ///< not sent yet
  const std::string name{};            ///< of the importer; empty for a bystander
  std::vector<BackingId> in_flight{};  ///< the part that is not mapped yet
  bool sent_last = false;

  bool is_bystander() const { return name.empty(); }
  /// Has no effect if the result is known.
  void settle(const Status& result) {
    if (const auto waiting = std::exchange(replies, nullptr)) waiting->settle(name, result);
  }
};

void Exports::send_part(const std::shared_ptr<PendingRestore>& to) {
  Restore message;
  message.tag = to->tag;
  std::vector<UniqueFd> fds;
  while (fds.size() < kPartFds && !to->backings.empty()) {
    const BackingId id = to->backings.back();
    to->backings.pop_back();
    const Backing* backing = context_.registry.find_backing(id);
    if (backing == nullptr || !backing->is_here()) continue;
    Result<UniqueFd> fd = export_fd(*backing);
    if (!fd.ok()) {
      tags_[to->tag].told.insert(to->importer);
      return to->settle(make_error(ErrorKind::peer, 0, "cannot export memory for an importer: %s",
                                   fd.error().message.c_str()));
    }
    message.backings.push_back(id);
    fds.push_back(std::move(fd.value()));
  }
  to->in_flight = message.backings;
  message.last = to->sent_last = to->backings.empty();
  context_.peers.load()->call(
      to->importer, std::move(message), std::move(fds), to->deadline,
      [this, to](const Result<Received>& reply) { on_part_mapped(to, reply); });
}

// Parts that an earlier restore has not sent may be released again.
bool Exports::is_current(const PendingRestore& to) {
  const OfTag& of_tag = tags_[to.tag];
  return !of_tag.is_paused && to.number == of_tag.restores;
}

void Exports::on_part_failed(const std::shared_ptr<PendingRestore>& to, const Error& why) {
  // The importer has ended.
  if (why.kind == ErrorKind::peer || (why.kind == ErrorKind::os && why.code == ECONNREFUSED))
    return to->settle(ok_status());
  const bool broke = why.kind == ErrorKind::os && why.code == ECONNRESET;
  const bool is_slow = why.kind == ErrorKind::timeout && !to->is_bystander();
  const bool is_awaited = to->replies != nullptr;
  if (!to->is_bystander()) {
    tags_[to->tag].told.insert(to->importer);
    to->settle(why);
  }
  // The gates of an importer open with the last part. The part is therefore sent again, to an
  // importer that has not replied in time, and after a connection has broken if no caller waits for
  // the result. It is in the importer's socket then, so it is not sent a third time.
  constexpr long kOneDayMs = 24L * 3600 * 1000;
  const bool again = is_slow || (broke && !is_awaited && !to->deadline.passed());
  if (!again || !is_current(*to)) return;
  if (is_slow) to->deadline = Deadline::after_ms(kOneDayMs);
  to->backings.insert(to->backings.end(), to->in_flight.begin(), to->in_flight.end());
  send_part(to);
}

void Exports::on_part_mapped(const std::shared_ptr<PendingRestore>& to,
                             const Result<Received>& reply) {
  MutexLock lock(context_.registry.mutex);
  if (!reply.ok()) return on_part_failed(to, reply.error());
  const auto& restored = std::get<Restored>(reply.value().message);
  if (restored.done && to->sent_last) return to->settle(ok_status());
  if (restored.done && is_current(*to)) return send_part(to);
  to->settle(Error{ErrorKind::peer, 0,
                   process_text(reply.value().pid) + " cannot map our memory again: " +
                       (restored.done ? "this process pauses again" : restored.reason)});
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
  std::map<InstanceId, std::vector<BackingId>> importing;
  for (auto& [id, backing] : context_.registry.backings()) {
    if (backing.tag != tag) continue;
    backing.is_staying = false;
    for (const InstanceId& importer : importers(backing)) {
      std::vector<BackingId>& backings = importing[importer];
      if (backing.is_here()) backings.push_back(id);
    }
  }
  for (auto& [importer, backings] : importing) {
    of_tag.told.erase(importer);
    const std::string name = process_text(importer_pids_[importer]);
    replies->expect(name);
    send_part(std::make_shared<PendingRestore>(PendingRestore{
        tag, importer, deadline, of_tag.restores, replies, std::move(backings), name}));
  }
  const Deadline notified_by = Deadline::after_ms(context_.timeout_ms);
  for (const InstanceId& process : std::exchange(of_tag.told, {}))
    send_part(std::make_shared<PendingRestore>(
        PendingRestore{tag, process, notified_by, of_tag.restores, nullptr, {}}));
}

}  // namespace amem
