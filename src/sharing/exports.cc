// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sharing/exports.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/descriptor_limit.h"
#include "base/log.h"
#include "base/sealed_file.h"
#include "base/test_seam.h"
#include "memory/backing_steps.h"
#include "transport/socket_address.h"

namespace amem {
namespace {

/// Of a process that has ended there is nothing to wait for.
bool has_ended(const Result<Received>& reply) {
  return !reply.ok() && reply.error().kind == ErrorKind::peer;
}

}  // namespace

Result<int> Exports::make_token(Allocation& allocation) {
  ensure_nonce(allocation);
  const Backing& backing = context_.registry.backing_of(allocation);
  const Token token{context_.self,
                    allocation.id,
                    allocation.nonce,
                    backing.id,
                    backing.is_slab ? backing.size_bytes : 0,
                    allocation.offset_bytes,
                    allocation.size_bytes,
                    getpid(),
                    backing.tag};
  return AMEM_TRY(amem::make_token(token)).release();
}

Allocation* Exports::find_exported(AllocationId id, uint64_t nonce) {
  Allocation* const allocation = context_.registry.find(id);
  const bool is_exported = allocation != nullptr && !allocation->is_import &&
                           allocation->nonce != 0 && allocation->nonce == nonce;
  return is_exported ? allocation : nullptr;
}

Fetched::Outcome Exports::outcome_of(const Fetch::Item& item, const PeerInfo& from, Fetched* answer,
                                     std::vector<UniqueFd>* fds) {
  const InstanceId& importer = from.instance;
  Allocation* allocation = find_exported(item.allocation, item.nonce);
  if (allocation == nullptr) return Fetched::Outcome::unknown;
  allocation->importers.insert(importer);
  importer_names_[importer] = process_text(from.pid, from.remote_name);
  const Backing& backing = context_.registry.backing_of(*allocation);
  OfTag& of_tag = tags_[backing.tag];
  if (of_tag.is_paused && answer->paused_scope.empty())
    if (Client* client = context_.clients.of(backing.tag)) answer->paused_scope = client->scope();
  if (of_tag.is_paused || context_.exiting || !backing.is_here()) {
    if (of_tag.is_paused) of_tag.notified.insert(importer);
    return Fetched::Outcome::paused;
  }
  if (item.has_backing) return Fetched::Outcome::noted;
  Result<UniqueFd> fd = export_fd(backing, !from.remote_name.empty());
  if (!fd.ok()) {
    answer->reason = fd.error().message;
    return Fetched::Outcome::failed;
  }
  fds->push_back(std::move(fd.value()));
  return Fetched::Outcome::here;
}

void Exports::answer_fetch(const PeerInfo& from, uint64_t request_id, const Fetch& fetch) {
  step_point("fetch_asked");
  Fetched answer;
  std::vector<UniqueFd> fds;
  // Decided and queued with one lock: the importer must not receive `paused` after a restore.
  MutexLock lock(context_.registry.mutex);
  for (const Fetch::Item& item : fetch.items)
    answer.outcomes.push_back(outcome_of(item, from, &answer, &fds));
  context_.peers.load()->reply(from.instance, request_id, std::move(answer), std::move(fds));
}

// A slot of a slab is free when its last importer has released it.
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
  importer_names_.erase(importer);
  for (auto& [tag, of_tag] : tags_) of_tag.notified.erase(importer);
  auto& allocations = context_.registry.allocations();
  for (auto next = allocations.begin(); next != allocations.end();) {
    Allocation& allocation = (next++)->second;
    forget_importer_of(importer, allocation);
  }
}

std::set<InstanceId> Exports::importers(const Backing& backing) {
  std::set<InstanceId> all;
  for (const auto& [offset_bytes, id] : backing.allocations)
    all.merge(std::set(context_.registry.find(id)->importers));
  return all;
}

std::map<InstanceId, Exports::Asked> Exports::begin_revoke(const Tags& tags) {
  std::map<InstanceId, Asked> all;
  for (auto& [id, backing] : context_.registry.backings()) {
    if (!tags.contains(backing.tag)) continue;
    const bool is_imported = !importers(backing).empty();
    backing.is_staying = is_imported && is_persistent(backing, context_.registry.allocations());
    for (const InstanceId& importer : importers(backing)) {
      Asked& known = all[importer];
      known.is_importer = true;
      known.name = name_of(importer);
      known.tags.insert(backing.tag);
      if (backing.is_staying && known.staying.size() < kMaxStaying) known.staying.push_back(id);
    }
  }
  return all;
}

Status Exports::on_revoked(const InstanceId& process, bool is_importer,
                           const Result<Received>& reply) {
  if (has_ended(reply)) return ok_status();
  if (!reply.ok())
    return is_importer ? reply.error()
                       : Error{reply.error().kind, 0,
                               "a process may use multicast memory of this process: " +
                                   reply.error().message};
  const auto& revoked = std::get<Revoked>(reply.value().message);
  if (!revoked.revoked)
    return Error{ErrorKind::peer, 0,
                 process_text(reply.value().pid, reply.value().remote_name) +
                     (is_importer ? " cannot revoke its mappings: "
                                  : " may use multicast memory of this process: ") +
                     revoked.reason};
  if (is_importer && !revoked.scope.empty())
    context_.peer_table.members.note(process, revoked.scope);
  return ok_status();
}

bool Exports::is_bound_to_multicast(const Tags& tags) {
  return std::ranges::any_of(context_.registry.backings(), [&](const auto& entry) {
    return tags.contains(entry.second.tag) && !entry.second.multicast_binds.empty();
  });
}

uint64_t Exports::restores_of(const std::vector<Tag>& tags) {
  uint64_t restores = 0;
  for (const Tag& tag : tags) restores += tags_[tag].restores;
  return restores;
}

void Exports::send_revoke(const std::shared_ptr<PendingRevoke>& to) {
  // The peer's deadline is earlier, so that its error arrives before this one gives up.
  const long long quiesce_ms = to->is_awaited ? std::max(1LL, to->until.left_ms() * 9LL / 10) : 0;
  to->request.timeout_ms = static_cast<uint32_t>(quiesce_ms);
  const auto on_reply = [this, to](Result<Received> reply) {
    if (!reply.ok() && has_broken(reply.error())) {
      // After the restore of a pause that has failed, it would close gates for good.
      MutexLock lock(context_.registry.mutex);
      if (restores_of(to->request.tags) == to->restores) return send_revoke(to);
    }
    to->done(std::move(reply));
  };
  context_.peers.load()->call(to->process, to->request, {}, to->until, on_reply);
}

Status Exports::send_revokes(const Tags& tags, const Scope& scope, Deadline deadline,
                             const std::shared_ptr<Replies>& replies) {
  PeerService* const peers = context_.peers.load();
  Result<std::set<InstanceId>> processes = std::set<InstanceId>();
  if (!scope.empty()) context_.peer_table.members.forget(scope);
  if (!scope.empty() && peers != nullptr) processes = instances_of_this_user();
  std::map<InstanceId, Asked> asked;
  bool is_bound = false;
  {
    MutexLock lock(context_.registry.mutex);
    asked = begin_revoke(tags);
    is_bound = is_bound_to_multicast(tags);
    if (processes.ok())
      for (const InstanceId& process : processes.value())
        if (process != context_.self) asked[process];
    for (auto& [process, known] : asked) {
      if (!scope.empty()) known.tags = tags;
      for (const Tag& tag : known.tags) tags_[tag].notified.insert(process);
    }
    for (const Tag& tag : tags) tags_[tag].is_paused = true;
  }
  if (!processes.ok()) {
    const Error error =
        make_error(processes.error().kind, 0,
                   "members of this process' scope cannot be notified that it pauses: %s",
                   processes.error().message.c_str());
    if (is_bound) return error;
    AMEM_LOG(warn, -1, "%s", error.message.c_str());
  }
  constexpr int kMomentMs = 200;  // for a bystander that uses no memory of this process
  const int left_ms = deadline.left_ms();
  MutexLock lock(context_.registry.mutex);
  for (auto& [process, known] : asked) {
    const bool is_awaited = known.is_importer || is_bound;
    Revoke request{0, {}, scope, std::move(known.staying)};
    const Deadline until = is_awaited ? deadline : Deadline::after_ms(std::min(kMomentMs, left_ms));
    const auto on_reply = [this, process = process, is_awaited,
                           is_importer = known.is_importer](const Result<Received>& reply) {
      return is_awaited ? on_revoked(process, is_importer, reply) : ok_status();
    };
    for (auto next = known.tags.begin(); next != known.tags.end();) {
      request.tags.clear();
      while (next != known.tags.end() && request.tags.size() < kMaxTags)
        request.tags.push_back(*next++);
      send_revoke(std::make_shared<PendingRevoke>(
          PendingRevoke{process, request, until, is_awaited, restores_of(request.tags),
                        replies->expect(known.name, on_reply)}));
    }
  }
  return ok_status();
}

Status Exports::revoke(const Tags& tags, Deadline deadline) {
  const auto replies = std::make_shared<Replies>();
  for (Client* client : context_.clients.of(tags)) {
    const Scope scope = client->scope();
    if (scope.size() > kMaxScope)
      return unsupported_error(
          "this process has %zu communicators, and other processes can be notified "
          "of %zu at most: destroy those that are not used",
          scope.size(), kMaxScope);
    Tags owned;
    for (const Tag& tag : tags)
      if (client->owns(tag)) owned.insert(tag);
    AMEM_TRY(send_revokes(owned, scope, deadline, replies));
  }
  step_point("pause_asked");
  if (seeded_fault("do_not_wait_for_gone")) return ok_status();
  return replies->wait(deadline,
                       "a pause waits for processes that map memory of this one, whose GPUs may be "
                       "busy with work that waits for it");
}

Result<UniqueFd> Exports::export_fd(const Backing& backing, bool to_host) {
  AMEM_TRY(context_.exiting.check());
  UniqueFd* const shared =
      shared_exports_.has_value() ? &(*shared_exports_)[{backing.id, to_host}] : nullptr;
  if (shared == nullptr || !shared->valid()) {
    int fd = -1;
    IpcHandleBytes handle{};
    AMEM_TRY(
        context_.driver.check(context_.driver.cuMemExportToShareableHandle(
                                  to_host ? static_cast<void*>(handle.data()) : &fd, backing.handle,
                                  to_host ? kHandleTypeFabric : kHandleTypeFd, 0),
                              "cuMemExportToShareableHandle(%zu bytes)", backing.size_bytes));
    UniqueFd made = to_host ? AMEM_TRY(make_sealed_file("amem-fabric", handle)) : UniqueFd(fd);
    if (shared == nullptr) return made;
    *shared = std::move(made);
  }
  UniqueFd copy(fcntl(shared->get(), F_DUPFD_CLOEXEC, 0));
  if (!copy.valid()) return os_error(errno, "fcntl(F_DUPFD_CLOEXEC) of an exported backing");
  return copy;
}

std::shared_ptr<const void> Exports::export_imported(const Tags& tags) {
  const auto close = [](Exports* exports) {
    MutexLock lock(exports->context_.registry.mutex);
    exports->shared_exports_.reset();
  };
  std::shared_ptr<const void> shared(this, close);
  std::vector<BackingId> imported;
  {
    MutexLock lock(context_.registry.mutex);
    if (!shared_exports_.has_value()) shared_exports_.emplace();
    for (const auto& [id, backing] : context_.registry.backings())
      if (tags.contains(backing.tag) && !importers(backing).empty()) imported.push_back(id);
  }
  for (BackingId id : imported) {
    MutexLock lock(context_.registry.mutex);
    const Backing* backing = context_.registry.find_backing(id);
    if (backing != nullptr && backing->is_here() && !export_fd(*backing, false).ok()) break;
  }
  return shared;
}

Status Exports::reserve_for_resume() {
  size_t shared = 0;
  std::set<InstanceId> others;
  {
    MutexLock lock(context_.registry.mutex);
    for (const auto& [id, backing] : context_.registry.backings()) {
      std::set<InstanceId> sharers = importers(backing);
      if (backing.is_import) sharers.insert(backing.owner);
      if (!sharers.empty()) ++shared;
      others.merge(sharers);
    }
  }
  // What each importer fetches at once, and what is fetched from each owner, may be in flight.
  Status reserved = reserve_descriptors(shared + 2 * kRestoredAtOnce * others.size());
  if (!reserved.ok()) reserved.error().message = "to resume, " + reserved.error().message;
  return reserved;
}

// --- IPC handles, which have no room for a token

Result<IpcHandleBytes> Exports::make_ipc_handle(Allocation& allocation, bool is_fabric,
                                                const HostAddress& address) {
  ensure_nonce(allocation);
  return encode_ipc_handle(
      {context_.self, allocation.id, allocation.nonce, getpid(), is_fabric, address});
}

// The id of an allocation is never 0.
IpcHandleBytes Exports::offer_descriptor(UniqueFd descriptor) {
  const uint64_t nonce = random_instance_id().bits[0];
  MutexLock lock(context_.registry.mutex);
  offered_[nonce] = std::move(descriptor);
  return encode_ipc_handle({context_.self, 0, nonce, getpid()});
}

bool Exports::withdraw_descriptor(uint64_t nonce) {
  MutexLock lock(context_.registry.mutex);
  return offered_.erase(nonce) > 0;
}

void Exports::answer_token_query(const PeerInfo& from, uint64_t request_id,
                                 const TokenQuery& query) {
  std::vector<UniqueFd> fds;
  MutexLock lock(context_.registry.mutex);
  const bool is_here = from.remote_name.empty();  // other descriptors than tokens do not travel
  const auto offered =
      query.allocation == 0 && is_here ? offered_.find(query.nonce) : offered_.end();
  if (offered != offered_.end()) {
    UniqueFd copy(fcntl(offered->second.get(), F_DUPFD_CLOEXEC, 0));
    if (copy.valid()) fds.push_back(std::move(copy));
  } else if (Allocation* const allocation = find_exported(query.allocation, query.nonce)) {
    Result<int> token = make_token(*allocation);
    if (token.ok()) fds.emplace_back(token.value());
  }
  const TokenReply reply{!fds.empty()};
  context_.peers.load()->reply(from.instance, request_id, reply, std::move(fds));
}

}  // namespace amem
