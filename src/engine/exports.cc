// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "engine/exports.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>

#include "base/descriptor_limit.h"
#include "base/seeded_fault.h"
#include "engine/step_point.h"
#include "peers/token.h"
#include "registry/backing_state.h"
#include "registry/backing_steps.h"

namespace amem {

std::string name_of_peer(const EngineContext& context, const InstanceId& peer) {
  if (PeerService* peers = context.peers.load())
    if (const auto info = peers->find(peer)) return "process " + std::to_string(info->pid);
  return "a process that has ended";
}

std::string paused_text(pid_t pid) { return "process " + std::to_string(pid) + " is paused"; }

namespace {

/// How long the service thread has to say which requests were not answered by their deadline.
constexpr long kGraceMs = 1000;
/// Descriptors on their way to one importer: as few as cost no time, because all that are on their
/// way to a process need numbers there.
constexpr size_t kPartFds = 16;

}  // namespace

/// What one importer gets back, part by part.
struct Exports::Return {
  const InstanceId importer;
  const std::string name;
  Deadline deadline;
  const std::shared_ptr<Replies> replies;
  const Replies::Ticket ticket;
  const uint64_t number;
  std::vector<BackingId> backings;  ///< those that were not sent yet
  bool sent_last = false;
  std::string failure;
};

Result<int> Exports::make_token(Allocation& allocation) {
  while (allocation.nonce == 0) allocation.nonce = random_instance_id().bits[0];
  const Backing& backing = context_.registry.backing_of(allocation);
  Token token{context_.self, allocation.id, allocation.nonce, getpid()};
  token.backing = backing.id;
  token.slab_bytes = backing.is_slab ? backing.size_bytes : 0;
  token.offset_bytes = allocation.offset_bytes;
  token.size_bytes = allocation.size_bytes;
  Result<UniqueFd> fd = amem::make_token(token);
  if (!fd.ok()) return std::move(fd.error());
  return fd.value().release();
}

void Exports::answer_fetch(const PeerInfo& from, uint64_t request_id, const Fetch& fetch) {
  step_point(StepPoint::fetch_asked);
  Fetched answer;
  std::vector<UniqueFd> fds;
  // Decided and queued under one lock: the importer must not hear "away" after it has heard that we
  // are back.
  MutexLock lock(context_.registry.mutex);
  for (const Fetch::Item& item : fetch.items) {
    Allocation* allocation = context_.registry.find(item.allocation);
    Fetched::Outcome outcome = Fetched::Outcome::unknown;
    if (allocation != nullptr && !allocation->is_import && allocation->nonce != 0 &&
        allocation->nonce == item.nonce) {
      allocation->importers.insert(from.instance);
      outcome = Fetched::Outcome::away;
      const Backing& backing = context_.registry.backing_of(*allocation);
      if (!away_ && !context_.exiting && backing.is_here() && item.has_backing) {
        outcome = Fetched::Outcome::noted;
      } else if (!away_ && !context_.exiting && backing.is_here()) {
        Result<UniqueFd> fd = export_fd(backing);
        outcome = fd.ok() ? Fetched::Outcome::here : Fetched::Outcome::failed;
        if (fd.ok()) {
          fds.push_back(std::move(fd.value()));
        } else {
          answer.reason = fd.error().message;
        }
      }
    }
    answer.outcomes.push_back(outcome);
  }
  if (away_) {
    told_.insert(from.instance);
    answer.away_scope = context_.client->scope();
  }
  context_.peers.load()->reply(from.instance, request_id, std::move(answer), std::move(fds));
}

// A place in a slab is free when its last importer is gone too.
void Exports::forget_importer_of(const InstanceId& importer, Allocation& allocation) {
  if (allocation.importers.erase(importer) > 0 && context_.registry.is_unused(allocation) &&
      !context_.exiting)
    erase_unused(context_.driver, context_.registry, allocation);
}

void Exports::forget_imports(const InstanceId& importer, const Drop& drop) {
  MutexLock lock(context_.registry.mutex);
  for (AllocationId id : drop.allocations)
    if (Allocation* allocation = context_.registry.find(id))
      forget_importer_of(importer, *allocation);
}

void Exports::forget_importer(const InstanceId& importer) {
  MutexLock lock(context_.registry.mutex);
  told_.erase(importer);
  auto& allocations = context_.registry.allocations();
  for (auto next = allocations.begin(); next != allocations.end();) {
    Allocation& allocation = (next++)->second;
    forget_importer_of(importer, allocation);
  }
}

std::set<InstanceId> Exports::importers() {
  std::set<InstanceId> all;
  for (const auto& [id, allocation] : context_.registry.allocations())
    all.insert(allocation.importers.begin(), allocation.importers.end());
  return all;
}

Status Exports::revoke(Deadline deadline) {
  AMEM_TRY(reserve_for_resume());
  std::set<InstanceId> asked;
  {
    MutexLock lock(context_.registry.mutex);
    away_ = true;
    asked = importers();
    told_.insert(asked.begin(), asked.end());
  }
  // An importer answers with its reason a little before we would give up on it without one.
  const Revoke request{static_cast<uint32_t>(deadline.left_ms() * 9LL / 10),
                       context_.client->scope()};
  context_.client->forget_scopes(request.scope);
  auto replies = std::make_shared<Replies>();
  for (const InstanceId& importer : asked) {
    const std::string name = name_of_peer(context_, importer);
    const Replies::Ticket ticket = replies->expect(name);
    context_.peers.load()->call(
        importer, request, {}, deadline,
        [this, replies, importer, ticket, name](Result<Received> reply) {
          // It has ended, and the kernel has taken its references.
          if (!reply.ok() && reply.error().kind == ErrorKind::peer)
            return replies->succeeded(ticket);
          if (!reply.ok())
            return replies->failed(ticket,
                                   name + " did not answer the revoke: " + reply.error().message,
                                   reply.error().kind);
          auto* revoked = std::get_if<Revoked>(&reply.value().message);
          if (revoked != nullptr && revoked->revoked) {
            if (!revoked->scope.empty())
              context_.client->note_scope(importer, std::move(revoked->scope));
            return replies->succeeded(ticket);
          }
          replies->failed(ticket, name + " cannot revoke its mappings: " +
                                      (revoked != nullptr ? revoked->reason : "unexpected answer"));
        });
  }
  const std::shared_ptr<Replies> heard = bystanders_.announce_away(request.scope, asked, deadline);
  step_point(StepPoint::pause_asked);
  if (seeded_fault("do_not_wait_for_gone")) return ok_status();
  AMEM_TRY(replies->wait(Deadline::after_ms(deadline.left_ms() + kGraceMs)));
  if (deadline.left_ms() > Bystanders::kMomentMs)
    (void)heard->wait(Deadline::after_ms(Bystanders::kMomentMs));
  return ok_status();
}

Result<UniqueFd> Exports::export_fd(const Backing& backing) {
  AMEM_TRY(context_.exiting.check());
  UniqueFd* const shared = shared_exports_.has_value() ? &(*shared_exports_)[backing.id] : nullptr;
  if (shared == nullptr || !shared->valid()) {
    int fd = -1;
    const DriverResult result =
        context_.driver.cuMemExportToShareableHandle(&fd, backing.handle, kHandleTypeFd, 0);
    if (result != driver_result::kSuccess)
      return driver_error(context_.driver, result, "cuMemExportToShareableHandle(%zu bytes)",
                          backing.size_bytes);
    if (shared == nullptr) return UniqueFd(fd);
    shared->reset(fd);
  }
  UniqueFd copy(fcntl(shared->get(), F_DUPFD_CLOEXEC, 0));
  if (!copy.valid()) return os_error(errno, "dup of an exported backing");
  return copy;
}

void Exports::begin_sharing() {
  MutexLock lock(context_.registry.mutex);
  shared_exports_.emplace();
}

void Exports::end_sharing() {
  MutexLock lock(context_.registry.mutex);
  shared_exports_.reset();
}

void Exports::export_imported() {
  std::vector<BackingId> imported;
  {
    MutexLock lock(context_.registry.mutex);
    for (const auto& [id, backing] : context_.registry.backings())
      if (is_imported(backing)) imported.push_back(id);
  }
  for (BackingId id : imported) {
    MutexLock lock(context_.registry.mutex);
    const Backing* backing = context_.registry.find_backing(id);
    if (backing != nullptr && backing->is_here() && !export_fd(*backing).ok()) return;
  }
}

bool Exports::send_part(const std::shared_ptr<Return>& to) {
  Restore message;
  std::vector<UniqueFd> fds;
  while (fds.size() < kPartFds && !to->backings.empty()) {
    const BackingId id = to->backings.back();
    to->backings.pop_back();
    const Backing* backing = context_.registry.find_backing(id);
    if (backing == nullptr || !backing->is_here() || !is_imported_by(to->importer, *backing))
      continue;
    Result<UniqueFd> fd = export_fd(*backing);
    if (!fd.ok()) {
      told_.insert(to->importer);
      to->replies->failed(to->ticket,
                          to->name + " could not be given its memory back: " + fd.error().message);
      return false;
    }
    message.backings.push_back(id);
    fds.push_back(std::move(fd.value()));
  }
  message.last = to->sent_last = to->backings.empty();
  context_.peers.load()->call(
      to->importer, std::move(message), std::move(fds), to->deadline,
      [this, to](Result<Received> reply) { on_part_mapped(to, std::move(reply)); });
  return true;
}

// What an earlier restore() has not sent yet may be away again.
bool Exports::is_current(const Return& to) { return !away_ && to.number == returns_; }

void Exports::on_part_failed(const std::shared_ptr<Return>& to, const Error& why) {
  // Nobody is there any more who could map it again.
  if (why.kind == ErrorKind::peer || (why.kind == ErrorKind::os && why.code == ECONNREFUSED))
    return to->replies->succeeded(to->ticket);
  told_.insert(to->importer);
  to->replies->failed(to->ticket, to->name + ": " + why.message, why.kind);
  // One that is slow finds all the rest when it goes on: its gates open with the last part.
  if (why.kind != ErrorKind::timeout || !is_current(*to)) return;
  to->deadline = Deadline::after_ms(context_.timeout_ms);
  while (!to->sent_last && send_part(to)) {
  }
}

void Exports::on_part_mapped(const std::shared_ptr<Return>& to, Result<Received> reply) {
  Replies& replies = *to->replies;
  MutexLock lock(context_.registry.mutex);
  if (!reply.ok()) return on_part_failed(to, reply.error());
  const auto* done = std::get_if<Restored>(&reply.value().message);
  if (done == nullptr || !done->done)
    to->failure = done != nullptr ? done->reason : "unexpected answer";
  // A failure of one part does not end the others: the importer says at the last one what it lacks.
  if (!to->sent_last && is_current(*to)) return (void)send_part(to);
  if (to->sent_last && to->failure.empty()) return replies.succeeded(to->ticket);
  replies.failed(to->ticket, to->name + " cannot map our memory again: " +
                                 (to->failure.empty() ? "this process pauses again" : to->failure));
}

Status Exports::reserve_for_resume() {
  size_t exported = 0, imported = 0;
  std::set<InstanceId> others;
  {
    MutexLock lock(context_.registry.mutex);
    others = importers();
    for (const auto& [id, backing] : context_.registry.backings()) {
      if (backing.is_import) others.insert(backing.owner);
      if (backing.is_import)
        ++imported;
      else if (is_imported(backing))
        ++exported;
    }
  }
  // To each importer one part is on its way, from each owner one may come.
  Status reserved = reserve_descriptors(exported + imported + 2 * kPartFds * others.size());
  if (!reserved.ok()) reserved.error().message = "to resume, " + reserved.error().message;
  return reserved;
}

bool Exports::is_imported(const Backing& backing) {
  return std::any_of(backing.allocations.begin(), backing.allocations.end(),
                     [&](const auto& entry) AMEM_REQUIRES(context_.registry.mutex) {
                       return !context_.registry.find(entry.second)->importers.empty();
                     });
}

bool Exports::is_imported_by(const InstanceId& importer, const Backing& backing) {
  return std::any_of(backing.allocations.begin(), backing.allocations.end(),
                     [&](const auto& entry) AMEM_REQUIRES(context_.registry.mutex) {
                       return context_.registry.find(entry.second)->importers.contains(importer);
                     });
}

std::shared_ptr<Replies> Exports::restore(Deadline deadline) {
  auto replies = std::make_shared<Replies>();
  const std::set<InstanceId> informed = restore_imports(deadline, replies);
  bystanders_.announce_back(informed);
  return replies;
}

std::set<InstanceId> Exports::restore_imports(Deadline deadline,
                                              const std::shared_ptr<Replies>& replies) {
  MutexLock lock(context_.registry.mutex);
  std::set<InstanceId> all = importers();
  all.insert(told_.begin(), told_.end());
  away_ = false;
  told_.clear();
  ++returns_;
  for (const InstanceId& importer : all) {
    const std::string name = name_of_peer(context_, importer);
    const auto to = std::make_shared<Return>(
        Return{importer, name, deadline, replies, replies->expect(name), returns_, {}, false, {}});
    for (const auto& [id, backing] : context_.registry.backings())
      if (backing.is_here() && is_imported_by(importer, backing)) to->backings.push_back(id);
    (void)send_part(to);
  }
  return all;
}

}  // namespace amem
