// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/nccl/gate/call_gate.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/thread_value.h"
#include "clients/nccl/gate/communicator_id.h"

namespace amem {
namespace {

constexpr size_t kMostUnseen = 1000;  ///< what a message says has to be one packet

bool contains(const std::vector<CommunicatorId>& ids, const CommunicatorId& id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

uint64_t next_number() {
  static std::atomic<uint64_t> gates{0};
  return ++gates;
}

}  // namespace

CallGate::CallGate() : number_(next_number()) {}
CallGate::~CallGate() = default;

GateThread& CallGate::make_this_thread() const {
  struct Owner {
    std::shared_ptr<GateThread> thread;
    void give_back() {
      if (thread == nullptr) return;
      // A thread may end inside a group.
      thread->depth = thread->group_depth = 0;
      thread->step_out();
      thread->owned.store(false, std::memory_order_release);
    }
    ~Owner() {
      t_last_ = {};
      give_back();
    }
  };
  // Not thread_local: applications end communicators in exit handlers.
  Owner& owner = thread_value<Owner>();
  owner.give_back();

  MutexLock lock(mutex_);
  std::shared_ptr<GateThread> mine;
  for (const auto& thread : threads_) {
    bool expected = false;
    if (thread->owned.compare_exchange_strong(expected, true)) {
      mine = thread;
      break;
    }
  }
  if (mine == nullptr) mine = threads_.emplace_back(std::make_shared<GateThread>());
  mine->depth = mine->group_depth = 0;
  mine->call.store(nullptr);
  mine->count.store(0);
  mine->latest = mine.get();
  mine->tid.store(syscall(SYS_gettid));
  owner.thread = std::move(mine);
  t_last_ = {number_, owner.thread.get()};
  return *owner.thread;
}

CommunicatorId CallGate::name_of(const void* communicator) {
  const auto known = known_.find(communicator);
  return known == known_.end() ? kNameless : known->second;
}

bool CallGate::contains_communicator(const std::vector<CommunicatorId>& ids,
                                     const void* communicator) {
  return communicator != nullptr && contains(ids, name_of(communicator));
}

bool CallGate::may_share(const std::vector<CommunicatorId>& ids) {
  const auto is_ours = [&](const auto& known) { return contains(ids, known.second); };
  return contains(ids, kNameless) || std::any_of(known_.begin(), known_.end(), is_ours) ||
         std::any_of(unseen_.begin(), unseen_.end(),
                     [&](const CommunicatorId& id) { return contains(ids, id); });
}

bool CallGate::blocks(const void* communicator, Closure* closure) {
  bool blocked = false;
  for (const auto& [member, away] : away_) {
    if (!contains_communicator(away.ids, communicator)) continue;
    // To wait for the others helps nobody when one has ended.
    if (!blocked || away.closure.for_ever) *closure = away.closure;
    blocked = true;
  }
  return blocked;
}

void CallGate::tell_outside() {
  MutexLock lock(mutex_);
  changed_.notify_all();
}

std::unique_ptr<const Error> CallGate::enter_with_care(GateThread& thread, size_t before,
                                                       const char* call, const void* communicator,
                                                       long timeout_ms) {
  MutexLock lock(mutex_);
  Status let_in = wait_while_closed(thread, before, call, communicator, timeout_ms);
  if (!let_in.ok()) return std::make_unique<const Error>(std::move(let_in.error()));
  if (!unseen_.empty() && communicator != nullptr) known_.try_emplace(communicator, kNameless);
  return nullptr;
}

Status CallGate::wait_while_closed(GateThread& thread, size_t before, const char* call,
                                   const void* communicator, long timeout_ms) {
  const Deadline deadline = Deadline::after_ms(timeout_ms);
  Closure closure;
  const bool nameless = name_of(communicator) == kNameless;
  const bool is_known = known_.contains(communicator);
  const auto step_back = [&] {
    thread.step_back(before);
    changed_.notify_all();
  };
  for (;;) {
    // A group that is inside was let in as a whole; its end is what the closer waits for.
    if (!process_closed_.empty() && before == 0) {
      step_back();
      return make_error(ErrorKind::misuse, 0, "%s: %s", call, process_closed_.c_str());
    }
    if (is_known && !known_.contains(communicator)) {
      step_back();
      return make_error(ErrorKind::misuse, 0,
                        "%s: the communicator was destroyed or aborted while the call waited",
                        call);
    }
    if (!blocks(communicator, &closure)) {
      thread.step_back(before);
      thread.step_in(call, communicator);
      return ok_status();
    }
    step_back();
    const char* const doubt = nameless || closure.is_guess ? " (if it is one)" : "";
    if (closure.for_ever)
      return make_error(ErrorKind::peer, 0,
                        "%s: a member of this communicator, %s%s; abort the communicator", call,
                        closure.text.c_str(), doubt);
    const auto may_go_on = [&]() AMEM_REQUIRES(mutex_) {
      Closure now;
      return (before == 0 && !process_closed_.empty()) || !blocks(communicator, &now) ||
             now.for_ever || (is_known && !known_.contains(communicator));
    };
    const bool opened = changed_.wait_until(mutex_, deadline, may_go_on, [&] {
      AMEM_LOG(warn, -1, "%s waits for a member of this communicator: %s%s", call,
               closure.text.c_str(), doubt);
    });
    if (!opened)
      return make_error(
          ErrorKind::timeout, 0,
          "%s waited %ld ms for a member of this communicator: %s%s; resume it, then call again",
          call, timeout_ms, closure.text.c_str(), doubt);
  }
}

void CallGate::stay_outside_if_closed(GateThread& thread, size_t before) {
  MutexLock lock(mutex_);
  if (process_closed_.empty()) return;
  thread.step_back(before);
  changed_.notify_all();
}

Status CallGate::admit_ungated(const char* call, long timeout_ms) {
  const Deadline deadline = Deadline::after_ms(timeout_ms);
  const GateThread* const self = caller_has_called() ? t_last_.thread : nullptr;
  MutexLock lock(mutex_);
  // NCCL launches a group's work on threads of its own, for a thread that is inside.
  fence_.heavy();
  if (!find_inside(nullptr, self).empty()) return ok_status();
  ungated_ = true;
  const auto is_away = [this](const auto& entry) AMEM_REQUIRES(mutex_) {
    return !entry.second.closure.for_ever && may_share(entry.second.ids);
  };
  const auto is_open = [&]() AMEM_REQUIRES(mutex_) {
    return !process_closed_.empty() || std::none_of(away_.begin(), away_.end(), is_away);
  };
  const bool opened = changed_.wait_until(mutex_, deadline, is_open, [&] {
    AMEM_LOG(warn, -1, "%s waits for a process that is paused", call);
  });
  if (!process_closed_.empty())
    return make_error(ErrorKind::misuse, 0, "%s: %s", call, process_closed_.c_str());
  if (opened) return ok_status();
  return make_error(ErrorKind::timeout, 0, "%s waited %ld ms for a process that is paused", call,
                    timeout_ms);
}

void CallGate::note_ungated_allocation() {
  MutexLock lock(mutex_);
  // A process with communicators of its own also allocates for peers, on a thread of NCCL (PXN:
  // transport/net.cc, sendProxyConnect@v2.30.7-1). Work of others is seen when it is launched.
  if (known_.empty() && unseen_.empty() && find_inside(nullptr).empty()) ungated_ = true;
}

void CallGate::add_communicator(const void* communicator, const CommunicatorId& id) {
  MutexLock lock(mutex_);
  known_[communicator] = id;
}

void CallGate::remove_communicator(const void* communicator) {
  MutexLock lock(mutex_);
  known_.erase(communicator);
  forget_ended();
  changed_.notify_all();
}

void CallGate::forget_ended() {
  const auto concerns_nobody = [&](const auto& entry) AMEM_REQUIRES(mutex_) {
    const std::vector<CommunicatorId>& ids = entry.second.ids;
    return entry.second.closure.for_ever &&
           std::none_of(known_.begin(), known_.end(),
                        [&](const auto& known) { return contains(ids, known.second); });
  };
  attention_.fetch_sub(static_cast<int>(std::erase_if(away_, concerns_nobody)),
                       std::memory_order_relaxed);
}

void CallGate::add_unseen(const CommunicatorId& id) {
  MutexLock lock(mutex_);
  if (unseen_.empty()) attention_.fetch_add(1, std::memory_order_relaxed);
  if (unseen_.size() < kMostUnseen) unseen_.push_back(id);
}

bool CallGate::knows_any(const std::vector<CommunicatorId>& ids) {
  const std::vector<CommunicatorId> ours = communicator_ids();
  return std::any_of(ours.begin(), ours.end(),
                     [&](const CommunicatorId& id) { return contains(ids, id); });
}

std::vector<CommunicatorId> CallGate::communicator_ids() {
  MutexLock lock(mutex_);
  std::vector<CommunicatorId> ids;
  for (const CommunicatorId& id : unseen_)
    if (id != kNameless) ids.push_back(id);
  for (const auto& [communicator, id] : known_)
    if (id != kNameless) ids.push_back(id);
  return ids;
}

CommunicatorId CallGate::id_of(const void* communicator) {
  MutexLock lock(mutex_);
  return name_of(communicator);
}

size_t CallGate::communicator_count() {
  MutexLock lock(mutex_);
  return known_.size();
}

void CallGate::close_process(std::string text) {
  MutexLock lock(mutex_);
  if (process_closed_.empty()) attention_.fetch_add(1, std::memory_order_relaxed);
  process_closed_ = std::move(text);
  fence_.heavy();
  changed_.notify_all();
}

void CallGate::open_process() {
  MutexLock lock(mutex_);
  if (!process_closed_.empty()) attention_.fetch_sub(1, std::memory_order_relaxed);
  process_closed_.clear();
  changed_.notify_all();
}

void CallGate::member_away(const Closure& closure, const std::vector<CommunicatorId>& ids) {
  MutexLock lock(mutex_);
  const auto [away, is_new] = away_.try_emplace(closure.member, Away{closure, ids});
  if (is_new) attention_.fetch_add(1, std::memory_order_relaxed);
  // One that has ended stays so, whatever of it is carried out later. One that only seemed to have
  // ended may have more communicators by now.
  if (!away->second.closure.for_ever)
    away->second = Away{closure, ids};
  else
    away->second.ids.insert(away->second.ids.end(), ids.begin(), ids.end());
  fence_.heavy();
  changed_.notify_all();
}

void CallGate::member_back(const InstanceId& member) {
  MutexLock lock(mutex_);
  const auto away = away_.find(member);
  // What it had here may be lost for all that it says now.
  if (away == away_.end() || away->second.closure.for_ever) return;
  away_.erase(away);
  attention_.fetch_sub(1, std::memory_order_relaxed);
  changed_.notify_all();
}

void CallGate::member_ended(const InstanceId& member, std::string text) {
  MutexLock lock(mutex_);
  auto away = away_.find(member);
  if (away == away_.end()) return;
  away->second.closure.text = std::move(text);
  away->second.closure.for_ever = true;
  forget_ended();
  changed_.notify_all();
}

void CallGate::member_lost(Closure closure, std::vector<CommunicatorId> ids) {
  MutexLock lock(mutex_);
  const auto [away, is_new] = away_.try_emplace(closure.member);
  if (is_new) {
    attention_.fetch_add(1, std::memory_order_relaxed);
    away->second.ids = std::move(ids);
  }
  away->second.closure = std::move(closure);
  fence_.heavy();
  forget_ended();
  changed_.notify_all();
}

std::string CallGate::find_inside(const std::vector<CommunicatorId>* ids,
                                  const GateThread* but_for) {
  for (const auto& thread : threads_) {
    if (thread.get() == but_for) continue;
    const char* call = thread->call.load(std::memory_order_acquire);
    if (call == nullptr) continue;
    const size_t count = thread->count.load(std::memory_order_relaxed);
    bool concerned = ids == nullptr || count > GateThread::kCommunicatorsInGroup;
    for (size_t i = 0; !concerned && i < count; ++i)
      concerned = contains_communicator(*ids, thread->communicators[i].load());
    if (concerned) return "thread " + std::to_string(thread->tid.load()) + " is inside " + call;
  }
  return {};
}

std::string CallGate::who_is_inside(const std::vector<CommunicatorId>* ids) {
  MutexLock lock(mutex_);
  fence_.heavy();
  return find_inside(ids);
}

Status CallGate::wait_until_outside(const std::vector<CommunicatorId>* ids, Deadline deadline) {
  if (caller_is_inside())
    return make_error(ErrorKind::misuse, 0,
                      "called from inside an NCCL call or an open ncclGroupStart()");
  MutexLock lock(mutex_);
  std::string inside;
  const auto is_empty = [&]() AMEM_REQUIRES(mutex_) {
    fence_.heavy();
    inside = find_inside(ids);
    return inside.empty();
  };
  const bool empty = changed_.wait_until(
      mutex_, deadline, is_empty, [&] { AMEM_LOG(warn, -1, "a pause waits: %s", inside.c_str()); });
  if (empty) return ok_status();
  return make_error(ErrorKind::timeout, 0, "%s and does not return", inside.c_str());
}

}  // namespace amem
