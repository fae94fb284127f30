// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/nccl/cycles/cycles.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/thread_value.h"
#include "clients/nccl/gate/capture_watch.h"

namespace amem {
namespace {

/// The communicators of the calling thread's call or group, each once.
struct ThreadCalls {
  std::vector<const void*> communicators;
};

}  // namespace

void Cycles::count(const void* communicator) {
  if (communicator == nullptr) return;
  auto& called = thread_value<ThreadCalls>().communicators;
  if (std::find(called.begin(), called.end(), communicator) == called.end())
    called.push_back(communicator);
}

Status Cycles::run_due() {
  if (CallGate::caller_is_inside()) return ok_status();
  Status result = ok_status();
  for (const auto& [id, due] : take_due())
    if (Status done = run(id, due); !done.ok()) result = std::move(done);
  return result;
}

Cycles::AllDue Cycles::take_due() {
  const auto called = std::exchange(thread_value<ThreadCalls>().communicators, {});
  AllDue all;
  if (CaptureWatch::take_captured()) return all;
  for (const void* const communicator : called) {
    const CommunicatorId id = gate_.id_of(communicator);
    if (id == kNameless) continue;
    MutexLock lock(mutex_);
    Counted& counted = counted_[communicator];
    counted.id = id;
    const auto every = static_cast<uint64_t>(settings_.every);
    if (++counted.calls % every != 0) continue;
    ++all[id].ranks;
    all[id].cycle = static_cast<uint32_t>(counted.calls / every);
  }
  return all;
}

std::shared_ptr<Rendezvous> Cycles::rendezvous_of(const CommunicatorId& id) {
  MutexLock lock(mutex_);
  const auto known = rendezvous_.find(id);
  if (known != rendezvous_.end()) return known->second;
  const int ranks = members_.ranks_of(id);
  Result<std::unique_ptr<Rendezvous>> opened =
      make_error(ErrorKind::unsupported, 0, "the number of ranks is not known (blocking = 0)");
  if (ranks > 0) opened = Rendezvous::open(id, ranks);
  if (!opened.ok())
    AMEM_LOG(warn, -1, "AMEM_CYCLE_EVERY: no pauses after calls on a communicator: %s",
             opened.error().message.c_str());
  std::shared_ptr<Rendezvous> rendezvous;
  if (opened.ok()) rendezvous = std::move(opened.value());
  return rendezvous_[id] = std::move(rendezvous);
}

Status Cycles::run(const CommunicatorId& id, const Due& due) {
  const std::shared_ptr<Rendezvous> rendezvous = rendezvous_of(id);
  if (rendezvous == nullptr) return ok_status();
  const auto meet = [&](uint32_t time) {
    const Status met =
        rendezvous->arrive(time, due.ranks, Deadline::after_ms(settings_.timeout_ms));
    if (!met.ok()) {
      AMEM_LOG(warn, -1, "AMEM_CYCLE_EVERY: no more pauses after calls on this communicator: %s",
               met.error().message.c_str());
      MutexLock lock(mutex_);
      rendezvous_[id] = nullptr;
    }
    return met.ok();
  };
  if (!meet(2 * due.cycle - 1)) return ok_status();
  const CallGate::WaitingCalls waiting(gate_);
  const Status paused = settings_.pause();
  if (!paused.ok())
    AMEM_LOG(warn, -1, "AMEM_CYCLE_EVERY: no pause after this call: %s",
             paused.error().message.c_str());
  meet(2 * due.cycle);
  // Also after a pause that failed: another thread may have paused the process.
  Status resumed = settings_.resume();
  return paused.ok() ? std::move(resumed) : ok_status();
}

void Cycles::communicator_ends(const void* communicator) {
  if (!enabled()) return;
  MutexLock lock(mutex_);
  const auto counted = counted_.find(communicator);
  if (counted == counted_.end()) return;
  const CommunicatorId id = counted->second.id;
  counted_.erase(counted);
  const auto is_its = [&](const auto& entry) { return entry.second.id == id; };
  if (std::none_of(counted_.begin(), counted_.end(), is_its)) rendezvous_.erase(id);
}

}  // namespace amem
