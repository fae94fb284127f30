// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sharing/imports.h"

#include <cerrno>
#include <cinttypes>
#include <optional>

#include "base/log.h"
#include "base/nvtx_range.h"
#include "base/seeded_fault.h"
#include "base/step_point.h"
#include "memory/backing_state.h"
#include "memory/backing_steps.h"
#include "sharing/token.h"

namespace amem {

using enum BackingState;

namespace {

std::string ended_text(pid_t pid) { return process_text(pid) + ", has ended"; }

}  // namespace

// --- The first import

DriverResult Imports::import_own(AllocationId id, uint64_t nonce, DriverHandle* handle) {
  Allocation* const ours = context_.registry.find(id);
  if (ours == nullptr || ours->nonce != nonce) return driver_result::kInvalidValue;
  ++ours->handle_references;
  *handle = handle_of(ours->id);
  return driver_result::kSuccess;
}

bool Imports::import_token(int fd, DriverHandle* handle, DriverResult* result) {
  const std::optional<Token> token = read_token(fd);
  if (!token.has_value()) return false;
  AllocationId local = 0;
  Fetch::Item item{token->allocation, token->nonce, false};
  {
    MutexLock lock(context_.registry.mutex);
    if (token->owner == context_.self) {
      *result = import_own(token->allocation, token->nonce, handle);
      return true;
    }
    Allocation& import = context_.registry.add_import(*token);
    local = import.id;
    const Backing& backing = context_.registry.backing_of(import);
    item.has_backing = backing.state == mapped;
    // The owner knows it since the first import.
    if (item.has_backing && import.handle_references + import.mappings.size() > 1) {
      *handle = handle_of(local);
      *result = driver_result::kSuccess;
      return true;
    }
  }
  auto replies = std::make_shared<Replies>();
  const Deadline deadline = Deadline::after_ms(context_.timeout_ms);
  request(token->owner, {{local, item}}, deadline, replies);
  const Status fetched = replies->wait(deadline);
  if (!fetched.ok())
    AMEM_LOG(error, -1, "cannot import memory of process %d: %s", token->owner_pid,
             fetched.error().message.c_str());
  *result = finish_import(local, fetched.ok(), handle);
  return true;
}

DriverResult Imports::finish_import(AllocationId local, bool known_to_owner, DriverHandle* handle) {
  MutexLock lock(context_.registry.mutex);
  Allocation* import = context_.registry.find(local);
  if (import == nullptr) return driver_result::kInvalidValue;
  Backing& backing = context_.registry.backing_of(*import);
  Status status = map_arrived(backing);
  if (status.ok() && backing.state == mapped)
    context_.driver.cuMemGetAllocationPropertiesFromHandle(&backing.properties, backing.handle);
  import->properties = backing.properties;
  // The import of a paused owner stays revoked until the owner resumes. Anything else is a failed
  // import.
  if (status.ok() && known_to_owner && (backing.state == mapped || backing.state == revoked)) {
    *handle = handle_of(local);
    return driver_result::kSuccess;
  }
  if (!status.ok()) AMEM_LOG(error, -1, "%s", status.error().message.c_str());
  if (--import->handle_references == 0 && import->mappings.empty()) {
    forget(*import);
    erase_unused(context_.driver, context_.registry, *import);
  }
  return !status.ok() && status.error().kind == ErrorKind::driver ? status.error().code
                                                                  : driver_result::kInvalidValue;
}

void Imports::forget(const Allocation& import) {
  const Backing& backing = context_.registry.backing_of(import);
  if (backing.allocations.size() == 1) arrived_.erase(backing.id);
  PeerService* const peers = context_.peers.load();
  if (backing.state == lost || peers == nullptr || context_.exiting) return;
  peers->send(import.origin.owner, Drop{{import.origin.allocation}}, {});
}

// --- Fetching

void Imports::request(const InstanceId& owner, const std::vector<Wanted>& wanted, Deadline deadline,
                      const std::shared_ptr<Replies>& replies) {
  Fetch fetch;
  for (const Wanted& one : wanted) fetch.items.push_back(one.item);
  replies->expect();
  context_.peers.load()->call(
      owner, std::move(fetch), {}, deadline,
      [this, owner, wanted, replies](Result<Received> reply) {
        if (reply.ok()) {
          const Status kept = on_fetched(owner, wanted, std::move(reply.value()));
          return kept.ok() ? replies->succeeded() : replies->failed(kept.error().message);
        }
        if (reply.error().kind != ErrorKind::peer)
          return replies->failed(reply.error().message, reply.error().kind);
        lose(owner, wanted, reply.error());
        replies->succeeded();
      });
}

// Kernels that use the memory would access unmapped addresses: notifies the client.
void Imports::lose(const InstanceId& owner, const std::vector<Wanted>& wanted, const Error& why) {
  MutexLock lock(context_.registry.mutex);
  pid_t pid = 0;
  size_t count = 0;
  Tags had;  // of what was mapped
  for (const Wanted& one : wanted) {
    const Allocation* import = context_.registry.find(one.local);
    if (import == nullptr) continue;
    pid = import->origin.owner_pid;
    ++count;
    Backing& backing = context_.registry.backing_of(*import);
    for (const auto& [offset_bytes, id] : backing.allocations)
      if (!context_.registry.find(id)->mappings.empty()) had.insert(backing.tag);
    (void)change_state(backing, lost);
  }
  if (count == 0) return;
  AMEM_LOG(warn, -1, "process %d, the owner of %zu imported allocations, has ended: %s", pid, count,
           why.message.c_str());
  for (Client* client : context_.clients.of(had)) client->peer_lost(owner, ended_text(pid));
}

Status Imports::on_fetched(const InstanceId& owner, const std::vector<Wanted>& wanted,
                           Received reply) {
  auto& answer = std::get<Fetched>(reply.message);
  if (answer.outcomes.size() != wanted.size())
    return make_error(ErrorKind::protocol, 0,
                      "process %d answered a fetch of %zu with %zu outcomes", reply.pid,
                      wanted.size(), answer.outcomes.size());
  Tags away;
  size_t next_fd = 0, failed = 0;
  MutexLock lock(context_.registry.mutex);
  for (size_t i = 0; i < wanted.size(); ++i) {
    const Fetched::Outcome outcome = answer.outcomes[i];
    const bool is_early = outcome == Fetched::Outcome::early;
    UniqueFd fd;
    if (outcome == Fetched::Outcome::here || is_early) fd = std::move(reply.fds[next_fd++]);
    const Allocation* import = context_.registry.find(wanted[i].local);
    if (import == nullptr) continue;
    Backing& backing = context_.registry.backing_of(*import);
    if (outcome == Fetched::Outcome::here || is_early) {
      arrived_[backing.id] = std::move(fd);
      if (is_early) away.insert(backing.tag);
    } else if (outcome == Fetched::Outcome::away) {
      away.insert(backing.tag);
      if (backing.state == dropped) (void)change_state(backing, revoked);
    } else if (outcome == Fetched::Outcome::failed) {
      ++failed;
    } else if (outcome == Fetched::Outcome::unknown && backing.allocations.size() > 1 &&
               import->mappings.empty()) {
      answer.reason = "it does not know one of them";
      ++failed;
    } else if (outcome == Fetched::Outcome::unknown) {
      (void)change_state(backing, lost);
    }
  }
  for (Client* client : context_.clients.of(away))
    client->close_for_peer(owner, paused_text(reply.pid), answer.away_scope);
  if (failed == 0) return ok_status();
  return make_error(ErrorKind::peer, 0, "process %d cannot export %zu of its allocations: %s",
                    reply.pid, failed, answer.reason.c_str());
}

Status Imports::map_arrived(Backing& backing) {
  auto arrived = arrived_.find(backing.id);
  if (arrived == arrived_.end()) return ok_status();
  const UniqueFd fd = std::move(arrived->second);
  arrived_.erase(arrived);
  if (backing.state == mapped || backing.state == lost) return ok_status();
  AMEM_TRY(context_.exiting.check());
  AMEM_TRY(import_backing(context_.driver, backing, fd.get()));
  return change_state(backing, mapped);
}

Status Imports::fetch(const std::vector<BackingId>& backings, Deadline deadline) {
  std::map<InstanceId, std::vector<Wanted>> by_owner;
  {
    MutexLock lock(context_.registry.mutex);
    for (const BackingId id : backings) {
      const Backing* backing = context_.registry.find_backing(id);
      if (backing == nullptr || backing->state != dropped) continue;
      // The nonce of any of its allocations is sufficient.
      const Allocation& import = *context_.registry.find(backing->allocations.begin()->second);
      by_owner[backing->owner].push_back(
          {import.id, {import.origin.allocation, import.origin.nonce, false}});
    }
  }
  auto replies = std::make_shared<Replies>();
  for (const auto& [owner, wanted] : by_owner)
    for (size_t at = 0; at < wanted.size(); at += kMaxFds) {
      const size_t end = std::min(at + kMaxFds, wanted.size());
      request(owner,
              {wanted.begin() + static_cast<ptrdiff_t>(at),
               wanted.begin() + static_cast<ptrdiff_t>(end)},
              deadline, replies);
    }
  Status status = replies->wait(deadline);
  for (const BackingId id : backings) {
    MutexLock lock(context_.registry.mutex);
    Backing* backing = context_.registry.find_backing(id);
    if (backing == nullptr) continue;
    Status mapped_again = map_arrived(*backing);
    if (!mapped_again.ok() && status.ok()) status = std::move(mapped_again);
  }
  return status;
}

// --- Pause and resume of the owner

void Imports::close(const PeerInfo& owner, const Tags& tags, const Scope& scope) {
  if (seeded_fault("leave_gate_open")) return;
  for (Client* client : context_.clients.of(tags))
    client->close_for_peer(owner.instance, paused_text(owner.pid), scope);
}

// Both close the gates immediately, and again when the worker reaches them: a restore of an earlier
// pause may be queued before them, which opens the gates.
void Imports::on_away(const PeerInfo& owner, uint64_t request_id, Away notice) {
  // Also sent to processes of other jobs of this user.
  const auto close_if_shared = [this, owner, notice = std::move(notice)] {
    Client* const client = context_.clients.of(notice.tag);
    if (client != nullptr && !seeded_fault("leave_gate_open"))
      client->close_if_shared(owner.instance, paused_text(owner.pid), notice.scope);
  };
  close_if_shared();
  workers_.post(owner.instance, close_if_shared);
  context_.peers.load()->reply(owner.instance, request_id, AwayHeard{}, {});
}

Revoked Imports::carry_out_revoke(const PeerInfo& owner, const Revoke& request, Deadline deadline) {
  const Tags tags(request.tags.begin(), request.tags.end());
  close(owner, tags, request.scope);
  bool untouched = true;
  const Status status = unmap_imports(owner.instance, request, deadline, &untouched);
  Revoked answer{status.ok(), {}};
  const std::vector<Client*> clients = context_.clients.of(tags);
  if (status.ok()) {
    for (Client* client : clients) {
      const Scope own = client->scope();
      answer.scope.insert(answer.scope.end(), own.begin(), own.end());
    }
    if (answer.scope.size() > kMaxScope) answer.scope.clear();
    return answer;
  }
  answer.reason = status.error().message;
  // The owner's pause has failed, and it restores what was unmapped.
  if (untouched && !context_.exiting)
    for (Client* client : clients) client->reopen_for_peer(owner.instance);
  return answer;
}

void Imports::on_revoke(const PeerInfo& owner, uint64_t request_id, Revoke request) {
  close(owner, Tags(request.tags.begin(), request.tags.end()), request.scope);
  const Deadline deadline = Deadline::after_ms(request.timeout_ms);
  workers_.post(owner.instance, [this, owner, request_id, deadline, request = std::move(request)] {
    if (context_.exiting) return;
    step_point(StepPoint::revoke_asked);
    const NvtxRange range("revoke");
    Revoked answer = carry_out_revoke(owner, request, deadline);
    if (!answer.revoked && context_.exiting) return;
    step_point(StepPoint::revoke_unmapped);
    context_.peers.load()->reply(owner.instance, request_id, std::move(answer), {});
  });
}

std::vector<Backing*> Imports::imports_of(const InstanceId& owner, const Tags* tags) {
  std::vector<Backing*> imports;
  for (auto& [id, backing] : context_.registry.backings())
    if (backing.is_import && backing.owner == owner &&
        (tags == nullptr || tags->contains(backing.tag)))
      imports.push_back(&backing);
  return imports;
}

Status Imports::unmap_imports(const InstanceId& owner, const Revoke& request, Deadline deadline,
                              bool* untouched) {
  const Tags tags(request.tags.begin(), request.tags.end());
  const std::set<BackingId> staying(request.staying.begin(), request.staying.end());
  std::vector<int> devices;
  {
    MutexLock lock(context_.registry.mutex);
    devices = devices_in_use(context_.registry);
  }
  if (!seeded_fault("leave_gate_open"))
    for (Client* client : context_.clients.of(tags))
      AMEM_TRY(client->quiesce_for_peer(request.scope, deadline));
  AMEM_TRY(context_.devices.drain(devices, deadline));
  step_point(StepPoint::revoke_drained);

  MutexLock lock(context_.registry.mutex);
  for (const Tag& tag : tags) series_.erase({owner, tag});  // of a restore that was interrupted
  for (Backing* import : imports_of(owner, &tags)) {
    if (staying.contains(import->id_at_owner)) continue;
    // Received by a resume of this process that has not mapped it. The owner will restore it.
    if (arrived_.erase(import->id) > 0 && import->state == dropped)
      AMEM_TRY(change_state(*import, revoked));
    if (!import->is_here()) continue;
    AMEM_TRY(context_.exiting.check());
    *untouched = false;
    AMEM_TRY(unmap_backing(context_.driver, *import));
    if (import->state == mapped) AMEM_TRY(change_state(*import, revoked));
    step_point(StepPoint::revoke_half_unmapped);
  }
  return ok_status();
}

void Imports::on_restore(const PeerInfo& owner, uint64_t request_id, Restore message,
                         std::vector<UniqueFd> fds) {
  auto shared = std::make_shared<std::vector<UniqueFd>>(std::move(fds));
  workers_.post(owner.instance, [this, owner, request_id, message = std::move(message), shared] {
    if (context_.exiting) return;
    // Also sent to processes that share nothing with the owner.
    const bool is_importer = !message.backings.empty();
    std::optional<NvtxRange> range;
    if (is_importer) range.emplace("restore");
    if (is_importer) step_point(StepPoint::restore_arrived);
    const Status status = map_again(owner.instance, message, *shared);
    if (!status.ok() && context_.exiting) return;
    if (is_importer) step_point(StepPoint::restore_mapped);
    Restored answer{status.ok(), status.ok() ? std::string() : status.error().message};
    context_.peers.load()->reply(owner.instance, request_id, std::move(answer), {});
  });
}

Status Imports::map_parcel(const InstanceId& owner, const Restore& message,
                           const std::vector<UniqueFd>& fds) {
  for (size_t i = 0; i < message.backings.size(); ++i) {
    Backing* import = context_.registry.find_import(owner, message.backings[i]);
    // A dropped import is fetched by the resume of this process. A mapped one may lack placements
    // if an unmap has failed.
    if (import == nullptr || (import->state != revoked && import->state != mapped)) continue;
    AMEM_TRY(context_.exiting.check());
    AMEM_TRY(import_backing(context_.driver, *import, fds[i].get()));
    if (import->state == revoked) AMEM_TRY(change_state(*import, mapped));
    step_point(StepPoint::restore_half_mapped);
  }
  return ok_status();
}

Status Imports::map_again(const InstanceId& owner, const Restore& message,
                          const std::vector<UniqueFd>& fds) {
  MutexLock lock(context_.registry.mutex);
  Series& series = series_[{owner, message.tag}];
  if (series.number != message.series) series = {message.series};
  series.is_complete = series.is_complete && series.arrived == message.sent_before;
  series.arrived += static_cast<uint32_t>(fds.size());
  Status status = map_parcel(owner, message, fds);
  series.is_complete = series.is_complete && status.ok();
  if (!message.last) return status;
  // What did not arrive or could not be mapped is not lost: the owner sends all again.
  const bool is_complete = series.is_complete;
  series_.erase({owner, message.tag});
  AMEM_TRY(std::move(status));
  if (!is_complete)
    return make_error(ErrorKind::protocol, 0, "an earlier part of what came back was not mapped");
  const Tags tags{message.tag};
  for (Backing* import : imports_of(owner, &tags))
    if (import->state == revoked && !arrived_.contains(import->id))
      (void)change_state(*import, lost);
  if (Client* client = context_.clients.of(message.tag)) client->reopen_for_peer(owner);
  return ok_status();
}

void Imports::on_owner_gone(const PeerInfo& owner) {
  const auto end = [this, owner] {
    if (context_.exiting) return;
    MutexLock lock(context_.registry.mutex);
    for (Backing* import : imports_of(owner.instance, nullptr))
      if (import->state == revoked) (void)change_state(*import, lost);
    for (Client* client : context_.clients.all())
      client->peer_ended(owner.instance, ended_text(owner.pid));
  };
  end();
  // Earlier messages of the owner are processed first, and may revoke and close gates again.
  workers_.post(owner.instance, end);
}

}  // namespace amem
