// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Pause, resume and end of an owner.
#include "sharing/imports.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/nvtx_range.h"
#include "base/test_seam.h"
#include "memory/backing_steps.h"

namespace amem {

using enum BackingState;

namespace {

/// There are imports, and a pause of this process has unmapped all of them.
bool are_dropped(const std::vector<Backing*>& imports) {
  return !imports.empty() && std::ranges::all_of(imports, [](const Backing* import) {
    return import->state == dropped && !import->is_here();
  });
}

}  // namespace

void Imports::reopen(const InstanceId& owner, const PeerTable::Notices& since) {
  for (const auto& [tag, notice] : since)
    if (Client* const client = context_.clients.of(tag);
        context_.peer_table.reopen(owner, tag, notice) && client != nullptr)
      client->reopen_for_peer();
}

Status Imports::quiesce(const Tags& tags, const Scope& scope, Deadline deadline) {
  const std::vector<int> devices = devices_in_use(context_.registry);
  if (!seeded_fault("leave_gate_open"))
    for (Client* client : context_.clients.of(tags))
      AMEM_TRY(client->quiesce_for_peer(scope, deadline));
  return context_.devices.drain(devices, deadline);
}

// A resume waits for restores, which are in the queue of the peer: this job has its own queue.
void Imports::on_resume_request(const ResumeRequest& request) {
  Client* const client = context_.clients.of(request.tag);
  if (client != nullptr) workers_.post(context_.self, [client] { client->resume_for_peer(); });
}

Revoked Imports::carry_out_revoke(const PeerInfo& owner, const Revoke& request,
                                  const PeerTable::Notices& notices, Deadline deadline) {
  bool untouched = true;
  const Status status = unmap_imports(owner.instance, request, deadline, &untouched);
  if (status.ok()) return {true, {}, scope_of(request.tags)};
  // The owner's pause has failed, and it restores what was unmapped.
  MutexLock lock(context_.registry.mutex);
  if (untouched && !context_.exiting) reopen(owner.instance, notices);
  return {false, status.error().message};
}

Scope Imports::scope_of(const std::vector<Tag>& tags) {
  Scope scope;
  for (Client* client : context_.clients.of(Tags(tags.begin(), tags.end())))
    std::ranges::copy(client->scope(), std::back_inserter(scope));
  if (scope.size() > kMaxScope) scope.clear();
  return scope;
}

void Imports::on_revoke(const PeerInfo& owner, uint64_t request_id, Revoke request) {
  const Deadline deadline = Deadline::after_ms(request.timeout_ms);
  const Tags tags(request.tags.begin(), request.tags.end());
  PeerTable::Notices notices;
  // Also sent to processes of other jobs of this user.
  bool shares = false;
  Scope ours;
  {
    MutexLock lock(context_.registry.mutex);
    ours = scope_of(request.tags);
    shares =
        !imports_of(owner.instance, &tags).empty() ||
        std::ranges::any_of(ours, [&](const ScopeId& id) { return contains(request.scope, id); });
    notices = context_.peer_table.pause(owner.instance, tags,
                                        paused_text(process_text(owner.pid, owner.remote_name)),
                                        request.scope, shares);
    import_ends_.notify_all();
  }
  if (!shares || request.timeout_ms == 0)
    return context_.peers.load()->reply(owner.instance, request_id, Revoked{true, {}, ours}, {});
  workers_.post(owner.instance, [this, owner, request_id, deadline, request = std::move(request),
                                 notices = std::move(notices)] {
    if (context_.exiting) return;
    step_point("revoke_asked");
    const NvtxRange range("revoke");
    Revoked answer = carry_out_revoke(owner, request, notices, deadline);
    if (!answer.revoked && context_.exiting) return;
    step_point("revoke_unmapped");
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

/// An error if memory that would be unmapped is registered by this process, for example with a NIC,
/// which would go on using the old physical memory. The owner does not know of the registration.
Status Imports::check_not_registered(const InstanceId& owner, const Tags& tags,
                                     const std::set<BackingId>& staying) {
  for (const Backing* import : imports_of(owner, &tags))
    if (!staying.contains(import->id_at_owner) &&
        is_persistent(*import, context_.registry.allocations()))
      return misuse_error("memory that it has imported is registered, for example with a NIC");
  return ok_status();
}

Status Imports::unmap_imports(const InstanceId& owner, const Revoke& request, Deadline deadline,
                              bool* untouched) {
  const Tags tags(request.tags.begin(), request.tags.end());
  const std::set<BackingId> staying(request.staying.begin(), request.staying.end());
  {
    // The pause of this process has waited for its work, and has unmapped them. Another wait would
    // be for what it copies.
    MutexLock lock(context_.registry.mutex);
    if (are_dropped(imports_of(owner, &tags))) return unmap_each(owner, tags, staying, untouched);
  }
  AMEM_TRY(quiesce(tags, request.scope, deadline));
  step_point("revoke_drained");
  MutexLock lock(context_.registry.mutex);
  return unmap_each(owner, tags, staying, untouched);
}

Status Imports::unmap_each(const InstanceId& owner, const Tags& tags,
                           const std::set<BackingId>& staying, bool* untouched) {
  AMEM_TRY(check_not_registered(owner, tags, staying));
  for (Backing* import : imports_of(owner, &tags)) {
    if (staying.contains(import->id_at_owner)) continue;
    // Received by a resume of this process that has not mapped it. The owner will restore it.
    if (arrived_.erase(import->id) > 0 && import->state == dropped) import->state = revoked;
    if (!import->is_here()) continue;
    AMEM_TRY(context_.exiting.check());
    *untouched = false;
    if (import->state == mapped) import->state = revoked;
    AMEM_TRY(unmap_backing(context_.driver, *import));
    step_point("revoke_half_unmapped");
  }
  return ok_status();
}

void Imports::on_restore(const PeerInfo& owner, uint64_t request_id, const Restore& message) {
  uint64_t notice = 0;
  {
    MutexLock lock(context_.registry.mutex);
    notice = context_.peer_table.of(owner.instance, message.tag).notices;
  }
  workers_.post(owner.instance, [this, owner, request_id, tag = message.tag, notice] {
    if (context_.exiting) return;
    const Status status = map_again(owner.instance, tag, notice);
    if (!status.ok() && context_.exiting) return;
    Restored answer{status.ok(), status.ok() ? std::string() : status.error().message};
    context_.peers.load()->reply(owner.instance, request_id, std::move(answer), {});
  });
}

Status Imports::map_again(const InstanceId& owner, const Tag& tag, uint64_t notice) {
  std::vector<BackingId> missing;
  {
    const Tags tags{tag};
    MutexLock lock(context_.registry.mutex);
    // A dropped import is fetched by the resume of this process.
    for (const Backing* import : imports_of(owner, &tags))
      if (import->state == revoked) missing.push_back(import->id);
  }
  // Also sent to processes that share nothing with the owner.
  const bool is_importer = !missing.empty();
  std::optional<NvtxRange> range;
  if (is_importer) range.emplace("restore");
  if (is_importer) step_point("restore_arrived");
  // As long as a call waits at a gate: the owner may be stopped.
  const Deadline deadline = Deadline::after_ms(context_.gate_timeout_ms);
  while (!missing.empty()) {
    const size_t left = missing.size() - std::min(missing.size(), kRestoredAtOnce);
    const auto next = missing.begin() + static_cast<ptrdiff_t>(left);
    AMEM_TRY(fetch({next, missing.end()}, revoked, deadline));
    missing.resize(left);
  }
  {
    MutexLock lock(context_.registry.mutex);
    reopen(owner, {{tag, notice}});  // unless the owner has paused again
    import_ends_.notify_all();
  }
  if (is_importer) step_point("restore_mapped");
  return ok_status();
}

bool Imports::shares_with(const InstanceId& peer) {
  if (context_.peer_table.knows(peer)) return true;
  MutexLock lock(context_.registry.mutex);
  for (const auto& [id, each] : context_.registry.allocations())
    if (each.importers.contains(peer) || (each.is_import && each.origin.owner == peer)) return true;
  return false;
}

void Imports::on_owner_gone(const PeerInfo& owner) {
  const auto end = [this, owner] {
    if (context_.exiting) return;
    Tags gated;
    for (const Client* client : context_.clients.all())
      if (client->peer_gate != PeerGate::none) gated.merge(client->tags());
    MutexLock lock(context_.registry.mutex);
    for (Backing* import : imports_of(owner.instance, nullptr))
      if (import->state == revoked) import->state = lost;
    for (auto& [id, each] : context_.registry.allocations())
      if (each.is_import && each.origin.owner == owner.instance) each.owner_has_ended = true;
    context_.peer_table.end(owner.instance, ended_text(process_text(owner.pid, owner.remote_name)),
                            gated);
    import_ends_.notify_all();
    for (Client* client : context_.clients.all()) client->reopen_for_peer();
  };
  end();
  // Earlier messages of the owner are processed first, and may revoke and close gates again.
  workers_.post(owner.instance, end);
}

// --- IPC handles, which have no room for a token

Result<Received> Imports::ask_for_token(const IpcHandle& wanted) {
  const auto replies = std::make_shared<Replies>();
  const auto token = std::make_shared<Received>();
  const Deadline deadline = Deadline::after_ms(context_.timeout_ms);
  const auto on_reply = [token](Result<Received> reply) -> Status {
    if (!reply.ok() && has_broken(reply.error())) return ok_status();
    if (!reply.ok()) return reply.error();
    if (reply.value().fds.empty()) return peer_error("its owner does not know it");
    *token = std::move(reply.value());
    return ok_status();
  };
  // Again if the connection has broken.
  while (token->fds.empty()) {
    context_.peers.load()->call(wanted.owner, TokenQuery{wanted.allocation, wanted.nonce}, {},
                                deadline,
                                replies->expect(process_text(wanted.owner_pid), on_reply));
    AMEM_TRY(replies->wait(deadline, kImportWaits));
  }
  return std::move(*token);
}

Result<DriverHandle> Imports::import_ipc_handle(const IpcHandle& wanted) {
  if (wanted.owner == context_.self) {
    MutexLock lock(context_.registry.mutex);
    return import_own(wanted.allocation, wanted.nonce);
  }
  const auto import_wanted = [&]() -> Result<DriverHandle> {
    const Received reply = AMEM_TRY(ask_for_token(wanted));
    std::optional<Token> token = read_token(reply.fds.front().get());
    if (!token.has_value() || token->owner != wanted.owner ||
        token->allocation != wanted.allocation)
      return protocol_error("it has no token");
    token->remote_name = reply.remote_name;
    return import(*token);
  };
  Result<DriverHandle> imported = import_wanted();
  if (imported.ok()) return imported;
  Error error = make_error(ErrorKind::driver, result_of(imported.error()), "%s %d: %s",
                           wanted.is_fabric ? "cannot import a fabric handle of process"
                                            : "cannot open an IPC handle of process",
                           wanted.owner_pid, imported.error().message.c_str());
  AMEM_LOG(error, -1, "%s", error.message.c_str());
  return error;
}

}  // namespace amem
