// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/nccl/gate/call_gate.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/thread_value.h"
#include "clients/nccl/buffer_contents.h"

namespace amem {
namespace {

constexpr int kGraceMs = 200;

/// Calls that leave the gate notify while such an object exists.
struct Awaiting {
  std::atomic<int>& count;
  explicit Awaiting(std::atomic<int>& its_count) : count(its_count) { ++count; }
  ~Awaiting() { --count; }
};

/// Gives the record of a thread back when the thread ends, which may be inside a group.
struct Owner {
  GateThread* thread = nullptr;
  ~Owner() {
    if (thread == nullptr) return;
    thread->depth = thread->group_depth = 0;
    thread->step_out();
    CallGate::forget_this_thread();
    thread->owned.store(false, std::memory_order_release);
  }
};

}  // namespace

GateThread& CallGate::make_this_thread() {
  GateThread* mine = threads_.load(std::memory_order_acquire);
  while (mine != nullptr && mine->owned.exchange(true, std::memory_order_acquire))
    mine = mine->next;
  if (mine == nullptr) {
    mine = std::make_unique<GateThread>().release();
    // Relaxed: a reader of the list acquires its first record, which releases all older ones: each
    // was stored by an exchange of the one before it.
    mine->next = threads_.load(std::memory_order_relaxed);
    while (!threads_.compare_exchange_weak(mine->next, mine, std::memory_order_release)) {
    }
  }
  mine->tid.store(syscall(SYS_gettid));
  // Not thread_local: applications end communicators in exit handlers.
  thread_value<Owner>().thread = mine;
  t_thread_ = mine;
  return *mine;
}

CommunicatorId CallGate::identity_of(const void* communicator) {
  const auto known = known_.find(communicator);
  return known == known_.end() ? kNoIdentity : known->second;
}

bool CallGate::knows_any(const CommunicatorIds& ids) {
  const auto is_ours = [&](const auto& known) {
    return known.second != kNoIdentity && contains(ids, known.second);
  };
  return std::any_of(known_.begin(), known_.end(), is_ours) ||
         std::any_of(pending_.begin(), pending_.end(),
                     [&](const CommunicatorId& id) { return contains(ids, id); });
}

const CallGate::Peer* CallGate::closed_by(const void* communicator, bool ignore_ended) {
  const Peer* found = nullptr;
  if (communicator == nullptr) return found;
  const CommunicatorId id = identity_of(communicator);
  peers_.visit(kNcclTag, [&](const InstanceId&, const Peer& peer) {
    if (!concerns(peer, id)) return;
    // If one has ended, waiting for the others is useless.
    if (peer.is_away() && found == nullptr) found = &peer;
    if (peer.state == PeerTable::State::ended && !ignore_ended) found = &peer;
  });
  return found;
}

void CallGate::request_resumes(const void* communicator) {
  if (!request_resume_) return;
  const CommunicatorId id = identity_of(communicator);
  peers_.visit(kNcclTag, [&](const InstanceId& process, const Peer& peer) {
    if (peer.is_away() && concerns(peer, id)) request_resume_(process);
  });
}

void CallGate::update() {
  peers_.forget_ended(kNcclTag, [&](const Peer& peer) AMEM_REQUIRES(peers_.mutex) {
    return std::any_of(known_.begin(), known_.end(),
                       [&](const auto& known) { return concerns(peer, known.second); });
  });
  bool is_shared = !pending_.empty();  // communicators have to be recorded
  peers_.visit(kNcclTag, [&](const InstanceId&, Peer& peer) AMEM_REQUIRES(peers_.mutex) {
    peer.shares = peer.shares || knows_any(peer.scope);
    is_shared = is_shared || peer.shares;
  });
  open_.clear();
  if (is_shared)
    for (const auto& [communicator, id] : known_)
      if (closed_by(communicator, false) == nullptr) open_.add(communicator);
  check_.store(!process_closed_.empty() ? GateCheck::table
               : is_shared              ? GateCheck::object
                                        : GateCheck::none,
               std::memory_order_release);
  peers_.changed.notify_all();
}

void CallGate::read_peers() {
  MutexLock lock(peers_.mutex);
  update();
}

void CallGate::tell_outside() {
  MutexLock lock(peers_.mutex);
  peers_.changed.notify_all();
}

std::unique_ptr<const Error> CallGate::enter_with_care(GateThread& thread, size_t before,
                                                       const char* call, const void* communicator,
                                                       long timeout_ms, bool ignore_ended) {
  MutexLock lock(peers_.mutex);
  // A call that the gate of the process stops does not need the table: open_process() reads it.
  if (check_ == GateCheck::table && (process_closed_.empty() || before > 0)) update();
  Status let_in = wait_while_closed(thread, before, call, communicator, timeout_ms, ignore_ended);
  if (!let_in.ok()) return std::make_unique<const Error>(std::move(let_in.error()));
  if (!pending_.empty() && communicator != nullptr &&
      known_.try_emplace(communicator, kNoIdentity).second)
    update();
  return nullptr;
}

Status CallGate::wait_while_closed(GateThread& thread, size_t before, const char* call,
                                   const void* communicator, long timeout_ms, bool ignore_ended) {
  const bool unidentified = identity_of(communicator) == kNoIdentity;
  const bool is_known = known_.contains(communicator);
  std::string whom;
  thread.step_back(before);
  peers_.changed.notify_all();
  // A call that comes while the gate of the process is closed resumes the process before it waits
  // for a member: members may be waiting for this process.
  bool waits_already = process_closed_.empty(), must_resume = false;
  bool requests = false, is_noticed = false;
  // Empty while the call has to wait.
  const auto outcome = [&]() AMEM_REQUIRES(peers_.mutex) -> std::optional<Status> {
    const Peer* const paused = closed_by(communicator, ignore_ended);
    // A group that is inside was let in as a whole; its end is what the closer waits for.
    if (!process_closed_.empty() && before == 0) {
      whom = process_closed_;
      if (waiting_calls_ > 0) return std::nullopt;
      if (!resumes_on_call()) return misuse_error("%s: %s", call, whom.c_str());
      if (timeout_ms == 0) return std::nullopt;
      must_resume = !waits_already || paused == nullptr;
      if (must_resume) return ok_status();
    }
    if (is_known && !known_.contains(communicator))
      return misuse_error("%s: the communicator was destroyed or aborted while the call waited",
                          call);
    if (paused == nullptr) return ok_status();
    whom = paused->text + (unidentified || paused->is_guess ? " (it may not be a member)" : "");
    if (paused->is_away()) {
      if (std::exchange(requests, false)) request_resumes(communicator);
      return std::nullopt;
    }
    return peer_error("%s: a member of this communicator, %s; abort the communicator", call,
                      whom.c_str());
  };
  const Deadline deadline = Deadline::after_ms(timeout_ms);
  std::optional<Status> result;
  do {
    if (std::exchange(must_resume, false)) {
      AMEM_TRY(resume_for(call));
      waits_already = true;
    }
    requests = timeout_ms > 0;
    peers_.changed.wait_until(
        peers_.mutex, Deadline::after_ms(std::min<long>(kRequestAgainMs, deadline.left_ms())),
        [&]() AMEM_REQUIRES(peers_.mutex) { return (result = outcome()).has_value(); },
        [&] {
          if (!std::exchange(is_noticed, true))
            AMEM_LOG(warn, -1, "%s waits for a member of this communicator: %s%s", call,
                     whom.c_str(), kWaitCounts);
        });
  } while (must_resume || (!result.has_value() && !deadline.passed()));
  constexpr char kLate[] =
      "%s waited %ld ms for a member of this communicator: %s; resume it, then call again";
  if (!result.has_value()) return timeout_error(kLate, call, timeout_ms, whom.c_str());
  if (result->ok()) thread.step_in(call, communicator);
  return *std::move(result);
}

Status CallGate::resume_for(const char* call) {
  AMEM_LOG(info, -1, "%s resumes the memory of NCCL", call);
  peers_.mutex.unlock();
  Status resumed = resume_();
  peers_.mutex.lock();
  // A pause that this call has waited for may have been rolled back.
  if (resumed.ok() || process_closed_.empty()) return ok_status();
  return misuse_error("%s: this process is paused and cannot be resumed: %s", call,
                      resumed.error().message.c_str());
}

void CallGate::resume_for_peer() {
  {
    MutexLock lock(peers_.mutex);
    if (!resumes_on_call() || process_closed_.empty()) return;
  }
  AMEM_LOG(info, -1, "resumes the memory of NCCL for a waiting call of another process");
  if (const Status resumed = resume_(); !resumed.ok())
    AMEM_LOG(warn, -1, "cannot resume for a waiting call of another process: %s",
             resumed.error().message.c_str());
}

void CallGate::stay_outside_if_closed(GateThread& thread, size_t before) {
  MutexLock lock(peers_.mutex);
  if (process_closed_.empty()) return;
  thread.step_back(before);
  peers_.changed.notify_all();
}

void CallGate::add_communicator(const void* communicator, const CommunicatorId& id) {
  MutexLock lock(peers_.mutex);
  known_[communicator] = id;
  update();
}

void CallGate::remove_communicator(const void* communicator) {
  MutexLock lock(peers_.mutex);
  known_.erase(communicator);
  update();
}

void CallGate::add_pending(const CommunicatorId& id) {
  MutexLock lock(peers_.mutex);
  pending_.push_back(id);
  update();
}

void CallGate::remove_pending(const CommunicatorId& id, const void* communicator) {
  MutexLock lock(peers_.mutex);
  const auto found = std::find(pending_.begin(), pending_.end(), id);
  if (found != pending_.end()) pending_.erase(found);
  if (communicator != nullptr) known_[communicator] = id;
  update();
}

bool CallGate::has_unidentified() {
  MutexLock lock(peers_.mutex);
  return std::any_of(known_.begin(), known_.end(),
                     [](const auto& known) { return known.second == kNoIdentity; });
}

CommunicatorIds CallGate::communicator_ids() {
  MutexLock lock(peers_.mutex);
  CommunicatorIds ids;
  for (const CommunicatorId& id : pending_)
    if (id != kNoIdentity) ids.push_back(id);
  for (const auto& [communicator, id] : known_)
    if (id != kNoIdentity) ids.push_back(id);
  return ids;
}

CommunicatorId CallGate::id_of(const void* communicator) {
  MutexLock lock(peers_.mutex);
  return identity_of(communicator);
}

std::vector<const void*> CallGate::communicators_of_caller() {
  if (t_thread_ == nullptr) return {};
  const GateThread& thread = *t_thread_;
  std::vector<const void*> inside;
  const size_t count = thread.count.load(std::memory_order_relaxed);
  if (count > GateThread::kCommunicatorsInGroup) {
    MutexLock lock(peers_.mutex);
    for (const auto& [communicator, id] : known_) inside.push_back(communicator);
  } else {
    for (size_t i = 0; i < count; ++i) inside.push_back(thread.communicators[i].load());
    std::erase(inside, nullptr);  // the start of a group
  }
  if (inside.empty()) inside.push_back(nullptr);
  return inside;
}

size_t CallGate::communicator_count() {
  MutexLock lock(peers_.mutex);
  return known_.size();
}

void CallGate::close_process(std::string text) {
  MutexLock lock(peers_.mutex);
  process_closed_ = std::move(text);
  update();
}

void CallGate::open_process() {
  MutexLock lock(peers_.mutex);
  process_closed_.clear();
  update();
}

Status CallGate::check_open(const char* call) {
  MutexLock lock(peers_.mutex);
  if (process_closed_.empty() || waiting_calls_ > 0 || remote_pause_ != 0) return ok_status();
  return misuse_error("%s: %s", call, process_closed_.c_str());
}

void CallGate::change_waiting_calls(int by) {
  MutexLock lock(peers_.mutex);
  waiting_calls_ += by;
  peers_.changed.notify_all();
}

std::string CallGate::find_inside(const CommunicatorIds* ids, const GateThread* but_for) {
  for (const GateThread* thread = threads_.load(std::memory_order_acquire); thread != nullptr;
       thread = thread->next) {
    if (thread == but_for) continue;
    const char* call = thread->call.load(std::memory_order_acquire);
    if (call == nullptr) continue;
    const size_t count = thread->count.load(std::memory_order_relaxed);
    bool concerned = ids == nullptr || count > GateThread::kCommunicatorsInGroup;
    for (size_t i = 0; !concerned && i < count; ++i)
      if (const void* const communicator = thread->communicators[i].load())
        concerned = contains(*ids, identity_of(communicator));
    if (concerned) return "thread " + std::to_string(thread->tid.load()) + " is inside " + call;
  }
  return {};
}

Status CallGate::refuse_if_import_waits(const std::string& what) {
  MutexLock lock(peers_.mutex);
  return refuse_if_import_waits_locked(what);
}

Status CallGate::refuse_if_import_waits_locked(const std::string& what) {
  const std::string owner = peers_.awaited_owner();
  if (owner.empty()) return ok_status();
  return misuse_error(
      "%s, and NCCL waits to import memory of %s, which is paused: resume that process first",
      what.c_str(), owner.c_str());
}

Status CallGate::wait_until_outside(const CommunicatorIds* ids, Deadline deadline) {
  if (caller_is_inside())
    return misuse_error("called from inside an NCCL call or an open ncclGroupStart()");
  MutexLock lock(peers_.mutex);
  const Awaiting awaiting(awaited_);
  std::string inside;
  const auto all_outside = [&]() AMEM_REQUIRES(peers_.mutex) {
    fence_.heavy();
    inside = find_inside(ids);
    return inside.empty();
  };
  do {
    if (!peers_.changed.wait_until(
            peers_.mutex, deadline,
            [&]() AMEM_REQUIRES(peers_.mutex) {
              return all_outside() || !peers_.awaited_owner().empty();
            },
            [&] { AMEM_LOG(warn, -1, "a pause waits: %s", inside.c_str()); }))
      return timeout_error("%s and does not return", inside.c_str());
    if (inside.empty()) return ok_status();
    // A call that does not need the import ends in this time.
    (void)peers_.changed.wait_until(peers_.mutex,
                                    Deadline::after_ms(std::min(kGraceMs, deadline.left_ms())),
                                    [&]() AMEM_REQUIRES(peers_.mutex) {
                                      return all_outside() || peers_.awaited_owner().empty();
                                    });
    if (!inside.empty()) AMEM_TRY(refuse_if_import_waits_locked(inside));
  } while (!inside.empty());
  return ok_status();
}

}  // namespace amem
