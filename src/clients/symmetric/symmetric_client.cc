// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/symmetric/symmetric_client.h"

#include <algorithm>
#include <cinttypes>
#include <utility>

#include "base/active.h"
#include "base/log.h"
#include "sharing/process_context.h"

namespace amem {
namespace {

Error no_set() {
  return misuse_error("this is not a set of amemCreateMemorySet(), or it was destroyed");
}

}  // namespace

Result<SymmetricClient::Set> SymmetricClient::look_up(MemorySet memory) {
  Set set{std::move(memory)};
  for (const auto& [address, size_bytes] : set.of.ranges) {
    const Mapping* const mapping = registry_.find_mapping(address);
    const Allocation* const found =
        mapping == nullptr ? nullptr : registry_.find(mapping->allocation);
    if (found == nullptr || !owns(registry_.backing_of(*found).tag) || size_bytes == 0 ||
        size_bytes > found->size_bytes)
      return misuse_error("%zu bytes at 0x%" PRIx64
                          " are not the first ones of memory with the tag symmetric",
                          size_bytes, address);
    if (!found->is_import) set.devices.push_back(found->device());
    if (found->is_import) set.owners.insert(found->origin.owner);
    if (found->owner_has_ended)
      set.ended = ended_text(process_text(found->origin.owner_pid, found->origin.remote_name));
  }
  return set;
}

Result<const void*> SymmetricClient::create_set(MemorySet memory) {
  MutexLock registry_lock(registry_.mutex);
  Set set = AMEM_TRY(look_up(std::move(memory)));
  const std::string ended = std::exchange(set.ended, {});
  MutexLock lock(peers_.mutex);
  const auto id = reinterpret_cast<const void*>(++last_id_);
  Set& added = sets_[id] = std::move(set);
  if (!ended.empty()) fail(added, ended);
  return id;
}

Status SymmetricClient::destroy_set(const void* set, Deadline deadline) {
  MutexLock lock(peers_.mutex);
  Set* const found = find(set);
  if (found == nullptr || found->is_ending) return no_set();
  found->is_ending = true;
  peers_.changed.notify_all();
  Status ended = wait_for_calls(deadline, [&](const Set& other) { return &other == found; });
  if (ended.ok()) {
    peers_.mutex.unlock();
    ended = devices_.drain(found->devices, deadline);
    peers_.mutex.lock();
  }
  found->is_ending = false;
  if (ended.ok()) sets_.erase(set);
  return ended;
}

SymmetricClient::Set* SymmetricClient::find(const void* set) {
  const auto found = sets_.find(set);
  return found == sets_.end() ? nullptr : &found->second;
}

template <typename Predicate>
Status SymmetricClient::wait_for_calls(Deadline deadline, Predicate predicate) {
  const auto is_inside = [&](const auto& entry) AMEM_REQUIRES(peers_.mutex) {
    return entry.second.calls_inside > 0 && predicate(entry.second);
  };
  const auto all_outside = [&]() AMEM_REQUIRES(peers_.mutex) {
    return std::none_of(sets_.begin(), sets_.end(), is_inside);
  };
  if (peers_.changed.wait_until(peers_.mutex, deadline, all_outside)) return ok_status();
  return timeout_error("a call on symmetric memory does not return");
}

const std::string* SymmetricClient::paused_peer(const Set& set) const {
  for (const InstanceId& owner : set.owners)
    if (const PeerTable::Peer* const known = peers_.find(owner, kSymmetricTag);
        known != nullptr && known->is_away())
      return &known->text;
  return nullptr;
}

Status SymmetricClient::enter(const void* set, long timeout_ms) {
  const Deadline deadline = Deadline::after_ms(timeout_ms);
  MutexLock lock(peers_.mutex);
  Set* found = nullptr;
  const char* why = nullptr;
  std::string waited_for;
  const auto is_decided = [&]() AMEM_REQUIRES(peers_.mutex) {
    found = find(set);
    // The table notifies of an end before reopen_for_peer() is called.
    if (found != nullptr) fail_if_ended(*found);
    if (found == nullptr || found->is_ending || is_paused_ || !found->ended.empty()) return true;
    const amemMemorySetUser_t& user = found->of.user;
    why = user.failure != nullptr ? user.failure(user.context) : nullptr;
    if (why != nullptr) return true;
    const std::string* const paused = paused_peer(*found);
    if (paused != nullptr) waited_for = *paused;
    return paused == nullptr;
  };
  const auto notice = [&] {
    AMEM_LOG(warn, -1, "a call on symmetric memory waits: %s", waited_for.c_str());
  };
  if (!peers_.changed.wait_until(peers_.mutex, deadline, is_decided, notice))
    return timeout_error("%s, and did not resume within %ld ms", waited_for.c_str(), timeout_ms);
  if (found == nullptr) return no_set();
  if (found->is_ending) return misuse_error("another thread destroys the handle");
  if (is_paused_)
    return misuse_error("symmetric memory of this process is paused; call amemResume() first");
  if (!found->ended.empty()) return peer_error("an owner of the memory, %s", found->ended.c_str());
  if (why != nullptr) return peer_error("%s", why);
  ++found->calls_inside;
  return ok_status();
}

Status SymmetricClient::leave(const void* set) {
  MutexLock lock(peers_.mutex);
  Set* const found = find(set);
  if (found == nullptr || found->calls_inside == 0) return no_set();
  if (--found->calls_inside == 0) peers_.changed.notify_all();
  return ok_status();
}

Status SymmetricClient::note_captured(const Driver& driver, const void* set, DriverStream stream) {
  int status = kCaptureStatusNone;
  uint64_t id = 0;
  const void* graph = nullptr;
  AMEM_TRY(
      driver.check(driver.cuStreamGetCaptureInfo_v2(stream, &status, &id, &graph, nullptr, nullptr),
                   "cuStreamGetCaptureInfo()"));
  CapturedGraphs* const graphs = built<CapturedGraphs>();
  if (status == kCaptureStatusActive && graphs != nullptr) graphs->captured(graph, {this, set});
  return ok_status();
}

Tags SymmetricClient::tags() const {
  MutexLock lock(registry_.mutex);
  for (const auto& [id, backing] : registry_.backings())
    if (owns(backing.tag)) return {kSymmetricTag};
  return {};
}

std::vector<Piece> SymmetricClient::live_ranges(const Allocation& allocation) const {
  std::vector<Piece> live = Client::live_ranges(allocation);
  if (live.empty() || allocation.mappings.empty()) return live;
  size_t kept = 0;
  MutexLock lock(peers_.mutex);
  for (const auto& [id, set] : sets_)
    for (const AddressRange& range : set.of.ranges)
      if (range.address == allocation.mappings.front()) kept = std::max(kept, range.size_bytes);
  if (kept > 0) live.front().size_bytes = kept;
  return live;
}

Status SymmetricClient::quiesce(Deadline deadline) {
  MutexLock lock(peers_.mutex);
  is_paused_ = true;
  peers_.changed.notify_all();
  return wait_for_calls(deadline, [](const Set&) { return true; });
}

void SymmetricClient::reopen() {
  MutexLock lock(peers_.mutex);
  is_paused_ = false;
}

Status SymmetricClient::quiesce_for_peer(const Scope& /*scope*/, Deadline deadline) {
  MutexLock lock(peers_.mutex);
  return wait_for_calls(deadline, [&](const Set& set) AMEM_REQUIRES(peers_.mutex) {
    return paused_peer(set) != nullptr;
  });
}

void SymmetricClient::reopen_for_peer() {
  MutexLock lock(peers_.mutex);
  for (auto& [id, set] : sets_) fail_if_ended(set);
  // A set that is created later reads Allocation::owner_has_ended.
  peers_.forget_ended(kSymmetricTag, [](const PeerTable::Peer&) { return false; });
  peers_.changed.notify_all();
}

void SymmetricClient::fail_if_ended(Set& set) {
  for (const InstanceId& owner : set.owners)
    if (const PeerTable::Peer* const known = peers_.find(owner, kSymmetricTag);
        known != nullptr && known->state == PeerTable::State::ended)
      fail(set, known->text);
}

void SymmetricClient::fail(Set& set, const std::string& text) {
  if (!set.ended.empty()) return;
  set.ended = text;
  const amemMemorySetUser_t& user = set.of.user;
  if (user.peer_ended != nullptr) user.peer_ended(user.context, text.c_str());
}

Status SymmetricClient::enter_launch(const char* /*call*/, const void* set, bool may_wait) {
  return enter(set, may_wait ? launch_timeout_ms_ : 0);
}

}  // namespace amem
