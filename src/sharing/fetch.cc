// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Requests of an importer to an owner: a first import, and all imports at the resume of this
// process.
#include <algorithm>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/sealed_file.h"
#include "base/test_seam.h"
#include "memory/backing_steps.h"
#include "sharing/imports.h"

namespace amem {

using enum BackingState;

// --- The first import

Result<DriverHandle> Imports::import_own(AllocationId id, uint64_t nonce) {
  Allocation* const ours = context_.registry.find(id);
  if (ours == nullptr || ours->nonce != nonce)
    return make_error(ErrorKind::driver, driver_result::kInvalidValue, "it has been freed");
  ++ours->handle_references;
  return handle_of(ours->id);
}

bool Imports::import_token(int fd, DriverHandle* handle, DriverResult* result) {
  const std::optional<Token> token = read_token(fd);
  if (!token.has_value()) return false;
  const Result<DriverHandle> imported = import(*token);
  *result = imported.ok() ? driver_result::kSuccess : result_of(imported.error());
  if (imported.ok())
    *handle = imported.value();
  else
    AMEM_LOG(error, -1, "cannot import memory of process %d: %s", token->owner_pid,
             imported.error().message.c_str());
  return true;
}

Result<DriverHandle> Imports::import(const Token& token) {
  const auto began = Deadline::Clock::now();
  Wanted wanted{0,
                0,
                {token.allocation, token.nonce, false},
                process_text(token.owner_pid, token.remote_name)};
  bool is_known = false;
  {
    MutexLock lock(context_.registry.mutex);
    if (token.owner == context_.self) return import_own(token.allocation, token.nonce);
    Allocation& import = context_.registry.add_import(token);
    const Backing& backing = context_.registry.backing_of(import);
    wanted.local = import.id;
    wanted.backing = backing.id;
    wanted.item.has_backing = backing.state == mapped;
    // The owner knows it since the first import.
    is_known = wanted.item.has_backing && import.handle_references + import.mappings.size() > 1;
  }
  const Deadline deadline = Deadline::after_ms(context_.timeout_ms);
  auto replies = std::make_shared<Replies>();
  if (!is_known) request(token.owner, {wanted}, deadline, replies);
  Status ready = replies->wait(deadline, kImportWaits);
  if (ready.ok()) ready = wait_until_usable(token, wanted.local, began);
  return finish_import(wanted.local, std::move(ready));
}

// The importing call may have passed the gate before the owner's notice, and use the memory at
// once: it waits here as long as at the gate.
Status Imports::wait_until_usable(const Token& token, AllocationId local,
                                  Deadline::Clock::time_point began) {
  Client* const client = context_.clients.of(token.tag);
  if (client == nullptr || client->peer_gate != PeerGate::imports) return ok_status();
  const std::string owner = process_text(token.owner_pid, token.remote_name);
  const auto is_missing = [&]() AMEM_REQUIRES(context_.registry.mutex) {
    const Allocation* const import = context_.registry.find(local);
    if (import == nullptr) return false;
    const Backing& backing = context_.registry.backing_of(*import);
    return backing.state == revoked && !arrived_.contains(backing.id);
  };
  bool is_reported = false, requests = false, is_noticed = false, in_time = false;
  Status aborted = ok_status();
  const auto is_over = [&]() AMEM_REQUIRES(context_.registry.mutex) {
    const bool waits = is_missing() && context_.peer_table.of(token.owner, token.tag).state ==
                                           PeerTable::State::paused;
    if (std::exchange(is_reported, waits) != waits) context_.peer_table.import_waits(owner, waits);
    if (!waits) return true;
    if (std::exchange(requests, false))
      context_.peers.load()->send(token.owner, ResumeRequest{token.tag}, {});
    aborted = context_.exiting.check();
    if (aborted.ok() && context_.peer_table.aborts_imports(token.owner, began, client->scope()))
      aborted = peer_error("the communicator was aborted");
    return !aborted.ok();
  };
  MutexLock lock(context_.registry.mutex);
  const Deadline deadline = Deadline::after_ms(context_.gate_timeout_ms);
  while (!in_time && !deadline.passed()) {
    requests = true;
    in_time = import_ends_.wait_until(
        context_.registry.mutex,
        Deadline::after_ms(std::min<long>(kRequestAgainMs, deadline.left_ms())), is_over, [&] {
          if (!std::exchange(is_noticed, true))
            AMEM_LOG(warn, -1, "%s: %s", kImportWaits, owner.c_str());
        });
  }
  if (is_reported) context_.peer_table.import_waits(owner, false);
  AMEM_TRY(std::move(aborted));
  if (!in_time) return timeout_error("it is paused, and has not resumed in time");
  if (is_missing()) return peer_error("it has freed the memory");
  return ok_status();
}

// In exit() the calling thread may have been interrupted while it held the mutex.
void Imports::wake() {
  constexpr long kWakeMs = 1000;
  Mutex& mutex = context_.registry.mutex;
  const bool locked = mutex.try_lock_until(Deadline::after_ms(kWakeMs));
  import_ends_.notify_all();
  if (locked) mutex.unlock();
}

Result<DriverHandle> Imports::finish_import(AllocationId local, Status ready) {
  MutexLock lock(context_.registry.mutex);
  Allocation* import = context_.registry.find(local);
  if (import == nullptr) return peer_error("it was released meanwhile");
  Backing& backing = context_.registry.backing_of(*import);
  Status status = map_arrived(backing);
  if (status.ok()) status = std::move(ready);
  if (status.ok() && backing.state == mapped)
    context_.driver.cuMemGetAllocationPropertiesFromHandle(&backing.properties, backing.handle);
  import->properties = backing.properties;
  // The import of a paused owner stays revoked until the owner resumes. Anything else is a failed
  // import.
  if (status.ok() && (backing.state == mapped || backing.state == revoked)) return handle_of(local);
  if (!context_.exiting && --import->handle_references == 0 && import->mappings.empty()) {
    forget(*import);
    erase_unused(context_.driver, context_.registry, *import);
  }
  AMEM_TRY(std::move(status));
  return peer_error("its owner has freed it or has ended");
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
  const auto on_reply = [=, this](Result<Received> reply) -> Status {
    if (reply.ok()) return on_fetched(owner, wanted, std::move(reply.value()));
    if (has_broken(reply.error())) {
      std::vector<Wanted> left = wanted;
      MutexLock lock(context_.registry.mutex);
      std::erase_if(left, [&](const Wanted& one) AMEM_REQUIRES(context_.registry.mutex) {
        return context_.registry.find(one.local) == nullptr;
      });
      if (!left.empty()) request(owner, left, deadline, replies);
      return ok_status();
    }
    if (reply.error().kind != ErrorKind::peer) return reply.error();
    lose(owner, wanted, reply.error());
    return ok_status();
  };
  context_.peers.load()->call(owner, std::move(fetch), {}, deadline,
                              replies->expect(wanted.front().owner, on_reply));
}

// Kernels that use the memory would access unmapped addresses: notifies the client.
void Imports::lose(const InstanceId& owner, const std::vector<Wanted>& wanted, const Error& why) {
  MutexLock lock(context_.registry.mutex);
  const std::string& name = wanted.front().owner;
  size_t count = 0;
  Tags had;  // of what was mapped
  for (const Wanted& one : wanted) {
    const Allocation* import = context_.registry.find(one.local);
    if (import == nullptr) continue;
    ++count;
    Backing& backing = context_.registry.backing_of(*import);
    for (const auto& [offset_bytes, id] : backing.allocations)
      if (!context_.registry.find(id)->mappings.empty()) had.insert(backing.tag);
    backing.state = lost;
  }
  if (count == 0) return;
  AMEM_LOG(warn, -1, "%s, the owner of %zu imported allocations, cannot be reached: %s",
           name.c_str(), count, why.message.c_str());
  for (const Tag& tag : had)
    if (Client* const client = context_.clients.of(tag);
        client != nullptr && client->peer_gate != PeerGate::none) {
      context_.peer_table.lose(owner, tag, ended_text(name), client->scope());
      client->reopen_for_peer();
    }
}

Status Imports::on_fetched(const InstanceId& owner, const std::vector<Wanted>& wanted,
                           Received reply) {
  auto& answer = std::get<Fetched>(reply.message);
  if (answer.outcomes.size() != wanted.size())
    return protocol_error("%s answered a fetch of %zu with %zu outcomes",
                          process_text(reply.pid, reply.remote_name).c_str(), wanted.size(),
                          answer.outcomes.size());
  Tags paused;
  size_t next_fd = 0, failed = 0;
  MutexLock lock(context_.registry.mutex);
  for (size_t i = 0; i < wanted.size(); ++i) {
    const Fetched::Outcome outcome = answer.outcomes[i];
    UniqueFd fd;
    if (outcome == Fetched::Outcome::here) fd = std::move(reply.fds[next_fd++]);
    // Of a slab, the client may have released this import and not the others.
    const Allocation* import = context_.registry.find(wanted[i].local);
    Backing* const found = context_.registry.find_backing(wanted[i].backing);
    if (found == nullptr) continue;
    Backing& backing = *found;
    if (outcome == Fetched::Outcome::here) {
      arrived_[backing.id] = {std::move(fd), !reply.remote_name.empty()};
    } else if (outcome == Fetched::Outcome::paused) {
      paused.insert(backing.tag);
      if (backing.state == dropped) backing.state = revoked;
    } else if (outcome == Fetched::Outcome::failed) {
      ++failed;
    } else if (outcome == Fetched::Outcome::unknown && backing.allocations.size() > 1 &&
               (import == nullptr || import->mappings.empty())) {
      answer.reason = "it does not know one of them";
      ++failed;
    } else if (outcome == Fetched::Outcome::unknown) {
      backing.state = lost;
    }
  }
  import_ends_.notify_all();
  // Before the memory is mapped, which needs the mutex: a call that passes the gate afterwards
  // waits, and wait_until_usable() holds the ones that are inside.
  context_.peer_table.pause(owner, paused, paused_text(process_text(reply.pid, reply.remote_name)),
                            answer.paused_scope, true);
  if (failed == 0) return ok_status();
  return peer_error("%s cannot export %zu of its allocations: %s",
                    process_text(reply.pid, reply.remote_name).c_str(), failed,
                    answer.reason.c_str());
}

Status Imports::map_arrived(Backing& backing) {
  auto arrived = arrived_.find(backing.id);
  if (arrived == arrived_.end()) return ok_status();
  const Arrived with = std::move(arrived->second);
  arrived_.erase(arrived);
  if (backing.state == mapped || backing.state == lost) return ok_status();
  AMEM_TRY(context_.exiting.check());
  auto* shareable = reinterpret_cast<void*>(static_cast<intptr_t>(with.fd.get()));
  std::optional<std::vector<uint8_t>> handle;
  if (with.is_of_host) {
    handle = read_sealed_file(with.fd.get(), kIpcHandleBytes + 1);
    if (!handle || handle->size() != kIpcHandleBytes)
      return protocol_error("its owner sent no fabric handle");
    shareable = handle->data();
  }
  AMEM_TRY(import_backing(context_.driver, backing, shareable,
                          with.is_of_host ? kHandleTypeFabric : kHandleTypeFd));
  backing.state = mapped;
  return ok_status();
}

Status Imports::fetch(const std::vector<BackingId>& backings, BackingState state,
                      Deadline deadline) {
  std::map<InstanceId, std::vector<Wanted>> by_owner;
  auto replies = std::make_shared<Replies>();
  {
    // Until the requests are queued: the release of an allocation that they name is sent later.
    MutexLock lock(context_.registry.mutex);
    for (const BackingId id : backings) {
      const Backing* backing = context_.registry.find_backing(id);
      if (backing == nullptr || backing->state != state) continue;
      // The nonce of any of its allocations is sufficient.
      const Allocation& import = *context_.registry.find(backing->allocations.begin()->second);
      by_owner[backing->owner].push_back(
          {import.id,
           id,
           {import.origin.allocation, import.origin.nonce, false},
           process_text(import.origin.owner_pid, import.origin.remote_name)});
    }
    for (const auto& [owner, wanted] : by_owner)
      for (size_t at = 0; at < wanted.size(); at += kMaxFds) {
        const size_t end = std::min(at + kMaxFds, wanted.size());
        request(owner,
                {wanted.begin() + static_cast<ptrdiff_t>(at),
                 wanted.begin() + static_cast<ptrdiff_t>(end)},
                deadline, replies);
      }
  }
  Status status = replies->wait(
      deadline,
      state == dropped ? "a resume waits for processes whose memory this one maps" : kImportWaits);
  for (const BackingId id : backings) {
    MutexLock lock(context_.registry.mutex);
    Backing* backing = context_.registry.find_backing(id);
    // A dropped import is for the resume of this process.
    if (backing == nullptr || (backing->state == dropped && state != dropped)) continue;
    Status mapped_again = map_arrived(*backing);
    if (state == revoked) step_point("restore_half_mapped");
    if (!mapped_again.ok() && status.ok()) status = std::move(mapped_again);
  }
  return status;
}

}  // namespace amem
