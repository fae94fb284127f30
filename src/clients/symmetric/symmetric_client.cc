// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/symmetric/symmetric_client.h"

#include <algorithm>

#include "base/log.h"

namespace amem {
namespace {

Error paused_error() {
  return make_error(ErrorKind::misuse, 0,
                    "symmetric memory of this process is paused; call amemResume() first");
}

Error no_handle() {
  return make_error(ErrorKind::misuse, 0,
                    "this is not a handle of amemSymmetricRendezvous(), or it was destroyed");
}

}  // namespace

Status SymmetricHandle::status() const {
  if (!failure.ok()) return failure;
  const uint32_t failed = symmetric::detail::load_volatile(&report->failed_peer);
  if (failed == 0) return ok_status();
  const uint32_t late = failed - 1;
  return make_error(
      ErrorKind::timeout, 0,
      "rank %u (process %d) did not arrive within the timeout of a kernel, or its handle has "
      "failed; the handle can only be destroyed",
      late, late < peers.size() ? peers[late].pid : 0);
}

const void* SymmetricClient::add(std::unique_ptr<SymmetricHandle> handle) {
  MutexLock lock(mutex_);
  if (handle->id == 0) handle->id = ++last_id_;
  const auto opaque = reinterpret_cast<const void*>(handle->id);
  fail_if_ended(*handle);
  handles_[opaque] = std::move(handle);
  return opaque;
}

Result<std::unique_ptr<SymmetricHandle>> SymmetricClient::take(const void* handle,
                                                               Deadline deadline) {
  MutexLock lock(mutex_);
  SymmetricHandle* const found = find(handle);
  if (found == nullptr || found->is_ending) return no_handle();
  found->is_ending = true;
  changed_.notify_all();
  Status left = wait_for_calls(deadline, [&](const auto& other) { return &other == found; });
  found->is_ending = false;
  AMEM_TRY(std::move(left));
  return std::move(handles_.extract(handle).mapped());
}

std::shared_ptr<void> SymmetricClient::keep_ended() {
  MutexLock lock(mutex_);
  keeping_ended_ = std::max(keeping_ended_, 0) + 1;
  return {nullptr, [this](void*) {
            MutexLock ending(mutex_);
            if (--keeping_ended_ == 0) forget_ended();
          }};
}

bool SymmetricClient::is_in_use(DeviceAddress buffer) {
  MutexLock lock(mutex_);
  return std::any_of(handles_.begin(), handles_.end(),
                     [&](const auto& entry) { return entry.second->buffer == buffer; });
}

SymmetricHandle* SymmetricClient::find(const void* handle) {
  const auto found = handles_.find(handle);
  return found == handles_.end() ? nullptr : found->second.get();
}

template <typename Predicate>
Status SymmetricClient::wait_for_calls(Deadline deadline, Predicate predicate) {
  const auto is_inside = [&](const auto& entry) AMEM_REQUIRES(mutex_) {
    return entry.second->calls_inside > 0 && predicate(*entry.second);
  };
  const auto all_outside = [&]() AMEM_REQUIRES(mutex_) {
    return std::none_of(handles_.begin(), handles_.end(), is_inside);
  };
  if (changed_.wait_until(mutex_, deadline, all_outside)) return ok_status();
  return make_error(ErrorKind::timeout, 0, "a call on symmetric memory does not return");
}

const std::string* SymmetricClient::paused_peer(const SymmetricHandle& handle) const {
  for (const SymmetricPeer& peer : handle.peers)
    if (const PeerTable::Peer* const known = peers_.find(peer.process, kSymmetricTag);
        known != nullptr && known->is_away())
      return &known->text;
  return nullptr;
}

Result<SymmetricHandle*> SymmetricClient::enter(const void* handle, long timeout_ms) {
  const Deadline deadline = Deadline::after_ms(timeout_ms);
  MutexLock lock(mutex_);
  SymmetricHandle* found = nullptr;
  std::string waited_for;
  const auto is_decided = [&]() AMEM_REQUIRES(mutex_) {
    found = find(handle);
    if (found == nullptr || found->is_ending || is_paused_ || !found->failure.ok()) return true;
    const std::string* const paused = paused_peer(*found);
    if (paused != nullptr) waited_for = *paused;
    return paused == nullptr;
  };
  const auto notice = [&] {
    AMEM_LOG(warn, -1, "a call on symmetric memory waits: %s", waited_for.c_str());
  };
  if (!changed_.wait_until(mutex_, deadline, is_decided, notice))
    return make_error(ErrorKind::timeout, 0, "%s, and did not resume within %ld ms",
                      waited_for.c_str(), timeout_ms);
  if (found == nullptr) return no_handle();
  if (found->is_ending)
    return make_error(ErrorKind::misuse, 0, "another thread destroys the handle");
  if (is_paused_) return paused_error();
  AMEM_TRY(found->status());
  ++found->calls_inside;
  return found;
}

void SymmetricClient::leave(SymmetricHandle& handle, const Status& enqueued) {
  MutexLock lock(mutex_);
  --handle.calls_inside;
  // It may have enqueued a part of its work: the kernels of the next call would meet the wrong ones
  // of its peers.
  if (!enqueued.ok() && enqueued.error().kind == ErrorKind::driver && handle.failure.ok())
    handle.failure =
        make_error(ErrorKind::driver, enqueued.error().code,
                   "an earlier call on the handle has failed (%s); it can only be destroyed",
                   enqueued.error().message.c_str());
  changed_.notify_all();
}

Status SymmetricClient::note_captured(const Driver& driver, const void* handle,
                                      DriverStream stream) {
  int status = kCaptureStatusNone;
  uint64_t id = 0;
  const void* graph = nullptr;
  AMEM_TRY(driver_status(
      driver, driver.cuStreamGetCaptureInfo_v2(stream, &status, &id, &graph, nullptr, nullptr),
      "cuStreamGetCaptureInfo()"));
  if (status == kCaptureStatusActive) captured_graphs().captured(graph, {this, handle});
  return ok_status();
}

Status SymmetricClient::look_up(const void* handle, const Reader& read) {
  MutexLock lock(mutex_);
  const SymmetricHandle* const found = find(handle);
  if (found == nullptr) return no_handle();
  read(*found);
  return ok_status();
}

Status SymmetricClient::status_of(const void* handle) {
  MutexLock lock(mutex_);
  const SymmetricHandle* const found = find(handle);
  return found == nullptr ? Status(no_handle()) : found->status();
}

Status SymmetricClient::check_open() {
  MutexLock lock(mutex_);
  return is_paused_ ? Status(paused_error()) : ok_status();
}

Tags SymmetricClient::tags() const {
  MutexLock lock(registry_.mutex);
  for (const auto& [id, backing] : registry_.backings())
    if (owns(backing.tag)) return {kSymmetricTag};
  return {};
}

std::vector<Piece> SymmetricClient::live_ranges(const Allocation& allocation) const {
  MutexLock lock(mutex_);
  for (const auto& [address, handle] : handles_)
    if (!allocation.mappings.empty() && allocation.mappings.front() == handle->workspace)
      return {{0, std::min(allocation.size_bytes,
                           symmetric::detail::scratch_offset(handle->world_size()))}};
  return Client::live_ranges(allocation);
}

Status SymmetricClient::quiesce(Deadline deadline) {
  MutexLock lock(mutex_);
  is_paused_ = true;
  changed_.notify_all();
  return wait_for_calls(deadline, [](const SymmetricHandle&) { return true; });
}

void SymmetricClient::reopen() {
  MutexLock lock(mutex_);
  is_paused_ = false;
}

Status SymmetricClient::quiesce_for_peer(const Scope& /*scope*/, Deadline deadline) {
  MutexLock lock(mutex_);
  return wait_for_calls(deadline, [&](const SymmetricHandle& handle) AMEM_REQUIRES(mutex_) {
    return paused_peer(handle) != nullptr;
  });
}

void SymmetricClient::reopen_for_peer() {
  MutexLock lock(mutex_);
  for (const auto& [opaque, handle] : handles_) fail_if_ended(*handle);
  if (keeping_ended_ == 0) forget_ended();
  changed_.notify_all();
}

void SymmetricClient::forget_ended() {
  peers_.forget_ended(kSymmetricTag, [](const PeerTable::Peer&) { return false; });
}

Status SymmetricClient::enter_launch(const char* /*call*/, const void* handle, bool may_wait) {
  const Result<SymmetricHandle*> entered = enter(handle, may_wait ? launch_timeout_ms_ : 0);
  return entered.ok() ? ok_status() : Status(entered.error());
}

void SymmetricClient::leave_launch(const void* handle) {
  MutexLock lock(mutex_);
  if (--handles_.at(handle)->calls_inside == 0) changed_.notify_all();
}

// Kernels that wait for the process end within milliseconds, and not at their timeout.
void SymmetricClient::fail_if_ended(SymmetricHandle& handle) {
  for (const SymmetricPeer& peer : handle.peers) {
    const PeerTable::Peer* const known = peers_.find(peer.process, kSymmetricTag);
    if (known == nullptr || known->state != PeerTable::State::ended || !handle.failure.ok())
      continue;
    handle.failure = make_error(ErrorKind::peer, 0, "a rank of the group, %s", known->text.c_str());
    symmetric::detail::store_volatile(&handle.report->abort, 1);
  }
}

}  // namespace amem
