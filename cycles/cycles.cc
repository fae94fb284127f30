// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// libamem_cycles.so. amem loads it if AMEM_CYCLE_EVERY is set: pauses and resumes NCCL's memory
// after every K-th call on a communicator, so that a program can be tested with pauses without a
// change. A call is one call outside groups, or one group. Only calls that start work are counted,
// and not those in a stream capture.
//
// The ranks of the communicator synchronize on the host before the pause and again before the
// resume (rendezvous.h). Otherwise a rank could launch the next collective while another rank
// pauses: that pause would wait for work that waits for the paused rank. NCCL calls of other
// threads wait at the gate of the process until the resume.
//
// A communicator gets no more pauses if its ranks do not synchronize within AMEM_TIMEOUT_MS, for
// example because they make different numbers of calls, and none if its number of ranks is not
// known (blocking = 0). A pause can fail in programs whose threads use several communicators
// concurrently.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "amem.h"
#include "cycles/rendezvous.h"

// Of amem's nccl.h, which would include NCCL's.
extern "C" int ncclPause(void** comm);
extern "C" int ncclResume(void** comm);

namespace amem::cycles {
namespace {

/// A cycle of the ranks that the calling thread's call was made on.
struct Due {
  int arriving = 0;
  int ranks = 0;       ///< of the communicator
  uint32_t cycle = 0;  ///< from 1
};
using AllDue = std::map<std::string, Due>;  ///< by the communicator's id

struct Counted {
  std::string id;
  int ranks = 0;
  uint64_t calls = 0;
};

/// As amem has read it.
int64_t setting(const char* name) {
  int64_t value = 0;
  (void)amemGetSetting(name, &value);
  return value;
}

class Cycles {
 public:
  int observe(const amemNcclCall_t& call) {
    if (call.has_ended != 0) {
      end(call.communicator);
      return 0;
    }
    count(call);
    int result = 0;
    if (call.is_in_group == 0)
      for (const auto& [id, due] : take_due(call.has_captured != 0))
        result = std::max(result, run(id, due));
    return result;
  }

 private:
  /// Each communicator of the calling thread's group, once.
  void count(const amemNcclCall_t& call) {
    if (call.id[0] == '\0') return;
    const std::lock_guard lock(mutex_);
    auto& called = called_[std::this_thread::get_id()];
    if (std::find(called.begin(), called.end(), call.communicator) != called.end()) return;
    called.push_back(call.communicator);
    Counted& counted = counted_[call.communicator];
    counted.id = call.id;
    counted.ranks = call.ranks;
  }

  AllDue take_due(bool captured) {
    const std::lock_guard lock(mutex_);
    AllDue all;
    const auto called = called_.extract(std::this_thread::get_id());
    if (called.empty() || captured) return all;
    for (const void* const communicator : called.mapped()) {
      Counted& counted = counted_[communicator];
      if (++counted.calls % every_ != 0) continue;
      Due& due = all[counted.id];
      ++due.arriving;
      due.ranks = counted.ranks;
      due.cycle = static_cast<uint32_t>(counted.calls / every_);
    }
    return all;
  }

  std::shared_ptr<Rendezvous> rendezvous_of(const std::string& id, int ranks) {
    const std::lock_guard lock(mutex_);
    const auto known = rendezvous_.find(id);
    if (known != rendezvous_.end()) return known->second;
    std::string error = "the number of ranks is not known (blocking = 0)";
    std::shared_ptr<Rendezvous> opened;
    if (ranks > 0) opened = Rendezvous::open(id, ranks, &error);
    if (opened == nullptr)
      amemLogWarning(
          ("AMEM_CYCLE_EVERY: no pauses after calls on a communicator: " + error).c_str());
    return rendezvous_[id] = opened;
  }

  bool meet(const std::string& id, Rendezvous& rendezvous, uint32_t time, int arriving) {
    const std::string error = rendezvous.arrive(time, arriving, timeout_ms_);
    if (error.empty()) return true;
    amemLogWarning(
        ("AMEM_CYCLE_EVERY: no more pauses after calls on this communicator: " + error).c_str());
    const std::lock_guard lock(mutex_);
    rendezvous_[id] = nullptr;
    return false;
  }

  /// Returns the error of the resume.
  int run(const std::string& id, const Due& due) {
    const std::shared_ptr<Rendezvous> rendezvous = rendezvous_of(id, due.ranks);
    if (rendezvous == nullptr || !meet(id, *rendezvous, 2 * due.cycle - 1, due.arriving)) return 0;
    const bool paused = ncclPause(nullptr) == 0;  // amem logs why not
    meet(id, *rendezvous, 2 * due.cycle, due.arriving);
    // Also after a pause that failed: another thread may have paused the process.
    const int resumed = ncclResume(nullptr);
    return paused ? resumed : 0;
  }

  void end(const void* communicator) {
    const std::lock_guard lock(mutex_);
    const auto counted = counted_.extract(communicator);
    if (counted.empty()) return;
    const std::string& id = counted.mapped().id;
    const auto is_its = [&](const auto& entry) { return entry.second.id == id; };
    if (std::none_of(counted_.begin(), counted_.end(), is_its)) rendezvous_.erase(id);
  }

  const uint64_t every_ = static_cast<uint64_t>(std::max<int64_t>(setting("AMEM_CYCLE_EVERY"), 1));
  const long timeout_ms_ = setting("AMEM_TIMEOUT_MS");
  std::mutex mutex_;
  std::map<std::thread::id, std::vector<const void*>> called_;
  std::map<const void*, Counted> counted_;
  /// nullptr for a communicator that gets no more pauses.
  std::map<std::string, std::shared_ptr<Rendezvous>> rendezvous_;
};

[[gnu::constructor]] void observe_calls() {
  amemOnNcclCall([](const amemNcclCall_t* call) {
    // Never destroyed: threads may call NCCL while the process exits. Settings are known by now.
    static Cycles* const cycles = new Cycles;
    return cycles->observe(*call);
  });
}

}  // namespace
}  // namespace amem::cycles
