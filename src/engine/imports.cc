// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "engine/imports.h"

#include <cerrno>
#include <cinttypes>

#include "base/log.h"
#include "base/seeded_fault.h"
#include "engine/memory_steps.h"
#include "engine/step_point.h"
#include "peers/token.h"
#include "registry/allocation_state.h"

namespace amem {

using enum AllocationState;

// --- The first import
// -------------------------------------------------------------------------------------------------

bool Imports::import_token(int fd, DriverHandle* handle, DriverResult* result) {
  const std::optional<Token> token = read_token(fd);
  if (!token.has_value()) return false;
  const ImportOrigin origin{token->owner, token->allocation, token->nonce};
  AllocationId local = 0;
  {
    MutexLock lock(context_.registry.mutex);
    if (origin.owner == context_.self) {
      Allocation* ours = context_.registry.find(origin.allocation);
      *result = driver_result::kInvalidValue;
      if (ours == nullptr || ours->nonce != origin.nonce) return true;
      ++ours->handle_references;
      *handle = handle_of(ours->id);
      *result = driver_result::kSuccess;
      return true;
    }
    Allocation& import = context_.registry.add_import(origin);
    local = import.id;
    if (import.state == mapped) {
      *handle = handle_of(local);
      *result = driver_result::kSuccess;
      return true;
    }
  }
  auto replies = std::make_shared<Replies>();
  const Deadline deadline = Deadline::after_ms(context_.timeout_ms);
  request(origin.owner, {{local, {origin.allocation, origin.nonce}}}, deadline, replies);
  const Status fetched = replies->wait(deadline);
  if (!fetched.ok())
    AMEM_LOG(error, -1, "cannot import memory of process %d: %s", token->owner_pid,
             fetched.error().message.c_str());
  *result = finish_import(local, handle);
  return true;
}

DriverResult Imports::finish_import(AllocationId local, DriverHandle* handle) {
  MutexLock lock(context_.registry.mutex);
  Allocation* import = context_.registry.find(local);
  if (import == nullptr) return driver_result::kInvalidValue;
  Status status = map_arrived(local);
  if (status.ok() && import->state == mapped)
    context_.driver.cuMemGetAllocationPropertiesFromHandle(&import->properties,
                                                           import->backing.handle);
  // An owner that is away keeps its import let go; it brings it back. Everything else is a failed
  // import.
  if (status.ok() && (import->state == mapped || import->state == let_go)) {
    *handle = handle_of(local);
    return driver_result::kSuccess;
  }
  if (!status.ok()) AMEM_LOG(error, -1, "%s", status.error().message.c_str());
  if (--import->handle_references == 0 && import->mappings.empty()) {
    forget(*import);
    context_.registry.erase(local);
  }
  return status.ok() ? driver_result::kInvalidValue : status.error().code;
}

void Imports::forget(const Allocation& import) {
  arrived_.erase(import.id);
  PeerService* const peers = context_.peers.load();
  if (import.state == lost || peers == nullptr || context_.exiting) return;
  peers->send(import.origin.owner, Drop{{import.origin.allocation}}, {});
}

// --- Fetching
// ---------------------------------------------------------------------------------------------------------

void Imports::request(const InstanceId& owner, const std::vector<Wanted>& wanted, Deadline deadline,
                      const std::shared_ptr<Replies>& replies) {
  Fetch fetch;
  for (const Wanted& one : wanted) fetch.items.push_back(one.item);
  const Replies::Ticket ticket = replies->expect(name_of_peer(context_, owner));
  context_.peers.load()->call(
      owner, std::move(fetch), {}, deadline,
      [this, owner, wanted, replies, ticket](Result<Received> reply) {
        if (reply.ok()) {
          auto* answer = std::get_if<Fetched>(&reply.value().message);
          if (answer == nullptr || answer->outcomes.size() != wanted.size())
            return replies->failed(
                ticket, name_of_peer(context_, owner) + " answered a fetch with something else");
          const Status kept =
              on_fetched(owner, wanted, std::move(*answer), std::move(reply.value().fds));
          return kept.ok() ? replies->succeeded(ticket)
                           : replies->failed(ticket, kept.error().message);
        }
        if (reply.error().kind != ErrorKind::peer)
          return replies->failed(ticket, reply.error().message, reply.error().kind);
        // The owner has ended, and its memory with it.
        MutexLock lock(context_.registry.mutex);
        for (const Wanted& one : wanted)
          if (Allocation* import = context_.registry.find(one.local))
            (void)change_state(*import, lost);
        AMEM_LOG(warn, -1, "the owner of %zu imported allocations has ended: %s", wanted.size(),
                 reply.error().message.c_str());
        replies->succeeded(ticket);
      });
}

Status Imports::on_fetched(const InstanceId& owner, const std::vector<Wanted>& wanted,
                           Fetched answer, std::vector<UniqueFd> fds) {
  bool away = false;
  size_t next_fd = 0, failed = 0;
  MutexLock lock(context_.registry.mutex);
  for (size_t i = 0; i < wanted.size(); ++i) {
    const Fetched::Outcome outcome = answer.outcomes[i];
    UniqueFd fd;
    if (outcome == Fetched::Outcome::here) fd = std::move(fds[next_fd++]);
    Allocation* import = context_.registry.find(wanted[i].local);
    if (import == nullptr) continue;
    if (outcome == Fetched::Outcome::here) {
      arrived_[import->id] = std::move(fd);
    } else if (outcome == Fetched::Outcome::away) {
      away = true;
      if (import->state == dropped) (void)change_state(*import, let_go);
    } else if (outcome == Fetched::Outcome::failed) {
      ++failed;
    } else {
      (void)change_state(*import, lost);
    }
  }
  if (away) {
    const std::string text = name_of_peer(context_, owner) + " is paused";
    context_.gate.member_away({owner, text, false}, answer.away_communicators);
  }
  if (failed == 0) return ok_status();
  return make_error(ErrorKind::peer, 0, "%s cannot export %zu of its allocations: %s",
                    name_of_peer(context_, owner).c_str(), failed, answer.reason.c_str());
}

Status Imports::map_arrived(AllocationId local) {
  auto arrived = arrived_.find(local);
  if (arrived == arrived_.end()) return ok_status();
  const UniqueFd fd = std::move(arrived->second);
  arrived_.erase(arrived);
  Allocation* import = context_.registry.find(local);
  if (import == nullptr || import->state == mapped) return ok_status();
  AMEM_TRY(context_.exiting.check());
  AMEM_TRY(import_backing(context_.driver, context_.registry, *import, fd.get()));
  return change_state(*import, mapped);
}

Status Imports::fetch(const std::vector<Step>& plan, Deadline deadline) {
  std::map<InstanceId, std::vector<Wanted>> by_owner;
  {
    MutexLock lock(context_.registry.mutex);
    for (const Step& step : plan) {
      const Allocation* import =
          step.action == Step::Action::fetch ? context_.registry.find(step.allocation) : nullptr;
      if (import == nullptr || import->state != dropped) continue;
      by_owner[import->origin.owner].push_back(
          {import->id, {import->origin.allocation, import->origin.nonce}});
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
  for (const auto& [owner, wanted] : by_owner)
    for (const Wanted& one : wanted) {
      MutexLock lock(context_.registry.mutex);
      Status mapped_again = map_arrived(one.local);
      if (!mapped_again.ok() && status.ok()) status = std::move(mapped_again);
    }
  return status;
}

// --- The owner goes away and comes back
// -------------------------------------------------------------------------------

void Imports::on_let_go(const PeerInfo& owner, uint64_t request_id, LetGo request) {
  if (!seeded_fault("leave_gate_open"))
    context_.gate.member_away({owner.instance, paused_text(owner.pid), false},
                              request.communicators);
  const Deadline deadline = Deadline::after_ms(request.timeout_ms);
  workers_.post(owner.instance,
                [this, owner, request_id, deadline, shared = std::move(request.communicators)] {
                  if (context_.exiting) return;
                  step_point(StepPoint::let_go_asked);
                  const Status status = let_go_of(owner.instance, shared, deadline);
                  if (!status.ok() && context_.exiting) return;
                  step_point(StepPoint::let_go_unmapped);
                  Gone answer{status.ok(), {}};
                  if (!status.ok()) {
                    answer.reason = status.error().message;
                    context_.gate.member_back(owner.instance);
                  }
                  context_.peers.load()->reply(owner.instance, request_id, std::move(answer), {});
                });
}

std::vector<AllocationId> Imports::imports_of(const InstanceId& owner) {
  std::vector<AllocationId> ids;
  for (const auto& [id, allocation] : context_.registry.allocations())
    if (allocation.is_import && allocation.origin.owner == owner) ids.push_back(id);
  return ids;
}

Status Imports::let_go_of(const InstanceId& owner, const std::vector<CommunicatorId>& shared,
                          Deadline deadline) {
  std::vector<int> devices;
  {
    MutexLock lock(context_.registry.mutex);
    devices = devices_in_use(context_.registry);
  }
  if (!seeded_fault("leave_gate_open"))
    AMEM_TRY(context_.gate.wait_until_outside(&shared, deadline));
  AMEM_TRY(context_.devices.drain(devices, deadline));
  step_point(StepPoint::let_go_drained);

  MutexLock lock(context_.registry.mutex);
  for (AllocationId id : imports_of(owner)) {
    arrived_.erase(id);
    Allocation& import = *context_.registry.find(id);
    if (!import.backing.is_here()) continue;
    AMEM_TRY(context_.exiting.check());
    AMEM_TRY(unmap_backing(context_.driver, context_.registry, import));
    if (import.state == mapped) AMEM_TRY(change_state(import, let_go));
    step_point(StepPoint::let_go_half_unmapped);
  }
  return ok_status();
}

void Imports::on_back(const PeerInfo& owner, uint64_t request_id, Back message,
                      std::vector<UniqueFd> fds) {
  auto shared = std::make_shared<std::vector<UniqueFd>>(std::move(fds));
  workers_.post(owner.instance, [this, owner, request_id, message = std::move(message), shared] {
    if (context_.exiting) return;
    step_point(StepPoint::back_arrived);
    const Status status = take_back(owner.instance, message, std::move(*shared));
    if (!status.ok() && context_.exiting) return;
    step_point(StepPoint::back_mapped);
    BackDone answer{status.ok(), status.ok() ? std::string() : status.error().message};
    context_.peers.load()->reply(owner.instance, request_id, std::move(answer), {});
  });
}

Status Imports::take_back(const InstanceId& owner, const Back& message, std::vector<UniqueFd> fds) {
  MutexLock lock(context_.registry.mutex);
  for (size_t i = 0; i < message.allocations.size(); ++i) {
    Allocation* import = context_.registry.find_import(owner, message.allocations[i]);
    // One that we dropped ourselves is fetched when we resume. One that is mapped may lack some of
    // its mappings, when letting go of it has failed.
    if (import == nullptr || (import->state != let_go && import->state != mapped)) continue;
    AMEM_TRY(context_.exiting.check());
    AMEM_TRY(import_backing(context_.driver, context_.registry, *import, fds[i].get()));
    if (import->state == let_go) AMEM_TRY(change_state(*import, mapped));
    step_point(StepPoint::back_half_mapped);
  }
  if (!message.last) return ok_status();
  for (AllocationId id : imports_of(owner)) {
    Allocation& import = *context_.registry.find(id);
    if (import.state == let_go && !arrived_.contains(id)) (void)change_state(import, lost);
  }
  context_.gate.member_back(owner);
  return ok_status();
}

void Imports::on_owner_gone(const PeerInfo& owner) {
  MutexLock lock(context_.registry.mutex);
  for (AllocationId id : imports_of(owner.instance)) {
    Allocation& import = *context_.registry.find(id);
    if (import.state != let_go) continue;
    (void)change_state(import, lost);
  }
  context_.gate.member_ended(owner.instance,
                             "process " + std::to_string(owner.pid) + ", has ended");
}

}  // namespace amem
