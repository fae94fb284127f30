// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/nccl/cycles/cycles.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/thread_value.h"

namespace amem {
namespace {

/// The communicators of the calling thread's call or group, each once.
struct ThreadCalls {
  std::vector<const void*> communicators;
};

}  // namespace

Cycles::Cycles(Settings settings, const Driver& driver, CallGate& gate, CaptureWatch& captures,
               Membership& members)
    : settings_(std::move(settings)),
      driver_(driver),
      gate_(gate),
      captures_(captures),
      members_(members) {
  if (enabled()) gate_.let_calls_wait();
}

void Cycles::count(const void* communicator) {
  if (communicator == nullptr) return;
  auto& called = thread_value<ThreadCalls>().communicators;
  if (std::find(called.begin(), called.end(), communicator) == called.end())
    called.push_back(communicator);
}

Status Cycles::run_due() {
  if (CallGate::caller_is_inside()) return ok_status();
  for (const auto& [id, due] : take_due()) AMEM_TRY(run(id, due));
  return ok_status();
}

Cycles::AllDue Cycles::take_due() {
  const auto called = std::exchange(thread_value<ThreadCalls>().communicators, {});
  AllDue all;
  if (called.empty() || captures_.any(driver_)) return all;
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
  auto opened = Rendezvous::open(id, members_.ranks_of(id));
  if (!opened.ok())
    AMEM_LOG(warn, -1, "AMEM_CYCLE_EVERY has no effect: %s", opened.error().message.c_str());
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
  const Status paused = settings_.pause();
  if (!paused.ok())
    AMEM_LOG(warn, -1, "AMEM_CYCLE_EVERY: no pause after this call: %s",
             paused.error().message.c_str());
  meet(2 * due.cycle);
  // Also after a pause that failed: another thread may have paused the process.
  return settings_.resume();
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
