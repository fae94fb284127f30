// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// The resume of an owner, for its importers: they map its memory while it is being filled, and open
// their gates when it is filled.
#include <algorithm>
#include <cerrno>

#include "sharing/exports.h"
#include "transport/socket_address.h"

namespace amem {

/// The restore of a tag for one importer, sent in parts.
struct Exports::PendingRestore {
  const Tag tag;
  const InstanceId importer;
  Deadline deadline;
  const uint64_t number;
  /// Null when the result is known.
  std::shared_ptr<Replies> replies;
  std::vector<BackingId> backings;  ///< not sent yet
  const std::string name{};         ///< of the importer; empty for a bystander
  bool is_filled = false;           ///< the memory is filled: the last part may be sent
  bool awaits_reply = false;        ///< the next part is sent after a reply
  bool is_over = false;             ///< no further part is sent
  bool sent_last = false;
  uint32_t sent = 0;  ///< backings
  std::string failure{};

  bool is_bystander() const { return name.empty(); }
  void succeed() {
    if (replies != nullptr) replies->heard(name);
    if (const auto waiting = std::exchange(replies, nullptr)) waiting->succeeded();
  }
  void fail(const std::string& what, ErrorKind kind = ErrorKind::peer) {
    if (replies != nullptr) replies->heard(name);
    if (const auto waiting = std::exchange(replies, nullptr)) waiting->failed(what, kind);
  }
};

bool Exports::send_part(const std::shared_ptr<PendingRestore>& to) {
  if (to->backings.empty() && !to->is_filled) return true;  // the last part follows
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
      tags_[to->tag].notified.insert(to->importer);
      to->is_over = true;
      to->fail("cannot export memory for an importer: " + fd.error().message);
      return false;
    }
    message.backings.push_back(id);
    fds.push_back(std::move(fd.value()));
  }
  message.last = to->sent_last = to->backings.empty() && to->is_filled;
  message.sent_before = to->sent;
  message.series = to->number;
  to->sent += static_cast<uint32_t>(fds.size());
  to->awaits_reply = true;
  context_.peers.load()->call(
      to->importer, std::move(message), std::move(fds), to->deadline,
      [this, to](const Result<Received>& reply) { on_part_mapped(to, reply); });
  return true;
}

// Parts that an earlier restore has not sent may be released again.
bool Exports::is_current(const PendingRestore& to) {
  const OfTag& of_tag = tags_[to.tag];
  return of_tag.state != OfTag::State::paused && to.number == of_tag.restores;
}

void Exports::on_part_failed(const std::shared_ptr<PendingRestore>& to, const Error& why) {
  // The importer has ended.
  if (why.kind == ErrorKind::peer || (why.kind == ErrorKind::os && why.code == ECONNREFUSED)) {
    to->is_over = true;
    return to->succeed();
  }
  if (to->is_bystander()) {
    // Sent again after a lost connection: otherwise calls of the importer would wait forever.
    const bool broke = why.kind == ErrorKind::os && why.code == ECONNRESET;
    if (broke && !to->deadline.passed() && is_current(*to)) (void)send_part(to);
    return;
  }
  tags_[to->tag].notified.insert(to->importer);
  to->fail(why.message, why.kind);
  to->is_over = why.kind != ErrorKind::timeout || !is_current(*to);
  if (to->is_over) return;
  // A slow importer receives the rest later: its gates open with the last part.
  to->deadline = Deadline::after_ms(context_.timeout_ms);
  while (!to->sent_last && (to->is_filled || !to->backings.empty()) && send_part(to)) {
  }
  to->awaits_reply = false;
}

void Exports::on_part_mapped(const std::shared_ptr<PendingRestore>& to,
                             const Result<Received>& reply) {
  MutexLock lock(context_.registry.mutex);
  to->awaits_reply = false;
  if (to->is_over) return;
  if (!reply.ok()) return on_part_failed(to, reply.error());
  const auto& restored = std::get<Restored>(reply.value().message);
  if (!restored.done && to->failure.empty()) to->failure = restored.reason;
  // A failed part does not stop the next ones: the reply to the last part lists what is missing.
  if (!to->sent_last && is_current(*to)) return (void)send_part(to);
  if (to->sent_last && to->failure.empty()) return to->succeed();
  to->fail(process_text(reply.value().pid) + " cannot map our memory again: " +
           (to->failure.empty() ? "this process pauses again" : to->failure));
}

std::shared_ptr<Replies> Exports::begin_restore(const Tags& tags, Deadline deadline) {
  auto replies = std::make_shared<Replies>();
  for (const Tag& tag : tags) {
    MutexLock lock(context_.registry.mutex);
    begin_restore(tag, deadline, replies);
  }
  return replies;
}

void Exports::begin_restore(const Tag& tag, Deadline deadline,
                            const std::shared_ptr<Replies>& replies) {
  OfTag& of_tag = tags_[tag];
  of_tag.state = OfTag::State::resuming;
  ++of_tag.restores;
  of_tag.replies = replies;
  of_tag.deadline = deadline;
  std::map<InstanceId, std::vector<BackingId>> due;
  for (const InstanceId& importer : std::exchange(of_tag.notified, {})) due[importer];
  for (auto& [id, backing] : context_.registry.backings()) {
    if (backing.tag != tag) continue;
    backing.is_staying = false;
    for (const InstanceId& importer : importers(backing)) {
      std::vector<BackingId>& backings = due[importer];
      if (backing.is_here()) backings.push_back(id);
    }
  }
  for (auto& [importer, backings] : due)
    (void)send_part(add_pending(tag, importer, std::move(backings)));
}

std::shared_ptr<Exports::PendingRestore> Exports::add_pending(const Tag& tag,
                                                              const InstanceId& importer,
                                                              std::vector<BackingId> backings) {
  OfTag& of_tag = tags_[tag];
  of_tag.bystanders.erase(importer);
  const std::string name = process_text(importer_pids_[importer]);
  of_tag.replies->expect(name);
  return of_tag.pending.emplace_back(std::make_shared<PendingRestore>(PendingRestore{
      tag, importer, of_tag.deadline, of_tag.restores, of_tag.replies, std::move(backings), name}));
}

void Exports::end_restore(const Tags& tags) {
  for (const Tag& tag : tags) {
    MutexLock lock(context_.registry.mutex);
    OfTag& of_tag = tags_[tag];
    of_tag.state = OfTag::State::here;
    for (const std::shared_ptr<PendingRestore>& to : std::exchange(of_tag.pending, {})) {
      to->is_filled = true;
      if (!to->awaits_reply && !to->is_over) (void)send_part(to);
    }
    const Deadline heard_by = Deadline::after_ms(context_.timeout_ms);
    for (const InstanceId& process : std::exchange(of_tag.bystanders, {}))
      (void)send_part(std::make_shared<PendingRestore>(
          PendingRestore{tag, process, heard_by, of_tag.restores, nullptr, {}, "", true}));
  }
}

void Exports::cancel_restore(const Tags& tags) {
  for (const Tag& tag : tags) {
    MutexLock lock(context_.registry.mutex);
    OfTag& of_tag = tags_[tag];
    of_tag.state = OfTag::State::paused;
    for (const std::shared_ptr<PendingRestore>& to : std::exchange(of_tag.pending, {}))
      of_tag.notified.insert(to->importer);
  }
}

void Exports::tell_at_end(const Tag& tag, const InstanceId& importer) {
  const auto& pending = tags_[tag].pending;
  const bool is_notified = std::any_of(pending.begin(), pending.end(),
                                       [&](const auto& to) { return to->importer == importer; });
  if (!is_notified) (void)add_pending(tag, importer, {});
}

}  // namespace amem
