// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sim/minccl/group.h"

#include <algorithm>
#include <map>
#include <thread>
#include <utility>

#include "base/thread_value.h"

namespace amem::minccl {
namespace {

// One thread each where there are several; the first failure.
ncclResult_t run_side_by_side(const std::vector<std::function<ncclResult_t()>>& jobs) {
  if (jobs.empty()) return ncclSuccess;
  if (jobs.size() == 1) return jobs.front()();
  std::vector<ncclResult_t> results(jobs.size(), ncclSuccess);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < jobs.size(); ++i) threads.emplace_back([&, i] { results[i] = jobs[i](); });
  for (std::thread& thread : threads) thread.join();
  auto failed = std::find_if(results.begin(), results.end(),
                             [](ncclResult_t result) { return result != ncclSuccess; });
  return failed == results.end() ? ncclSuccess : *failed;
}

}  // namespace

Group& Group::current() { return thread_value<Group>(); }

void Group::add_initialization(ncclComm* parent, ncclComm* comm, ncclComm_t* place,
                               std::function<ncclResult_t()> run) {
  initializations_.push_back({parent, comm, place, std::move(run)});
}

void Group::add_operation(ncclComm* comm, PendingOperation operation) {
  comm->enqueue(std::move(operation));
  if (std::find(comms_.begin(), comms_.end(), comm) == comms_.end()) comms_.push_back(comm);
}

ncclResult_t Group::end_call(ncclResult_t result) {
  if (error_ == ncclSuccess) error_ = result;
  ncclResult_t at_end = end();
  return result != ncclSuccess ? result : at_end;
}

ncclResult_t Group::end() { return end(false); }

ncclResult_t Group::end_simulated() { return end(true); }

ncclResult_t Group::end(bool simulated) {
  if (depth_ == 0) return fail(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  if (--depth_ > 0) return ncclSuccess;
  ncclResult_t result = std::exchange(error_, ncclSuccess);
  auto initializations = std::exchange(initializations_, {});
  auto comms = std::exchange(comms_, {});
  if (result == ncclSuccess) {
    result = run_initializations(initializations);
  } else {
    for (const Initialization& job : initializations) give_up(job);
  }
  if ((result == ncclSuccess || result == ncclInProgress) && !simulated) {
    if (ncclResult_t launched = run_operations(comms); launched != ncclSuccess) result = launched;
  } else {
    for (ncclComm* comm : comms) comm->drop_pending();
  }
  return result;
}

void Group::give_up(const Initialization& job) {
  if (job.comm != nullptr && job.comm->free(FreeMode::abort) == ncclSuccess)
    delete job.comm;  // allow: as in api_init.cc
  *job.place = nullptr;
}

ncclResult_t Group::run_initialization(const Initialization& job) {
  ncclResult_t result = job.run();
  if (result != ncclSuccess) give_up(job);
  return result;
}

ncclResult_t Group::run_initializations(const std::vector<Initialization>& initializations) {
  std::vector<std::function<ncclResult_t()>> jobs;
  // A child is made in its parent's background, and the parent is in progress meanwhile (init.cc,
  // ncclCommInitChildComm@v2.30.7-1).
  std::map<ncclComm*, std::vector<Initialization>> in_background;
  for (const Initialization& job : initializations) {
    ncclComm* const owner = job.parent != nullptr ? job.parent : job.comm;
    if (!owner->blocking)
      in_background[owner].push_back(job);
    else
      jobs.push_back([&job] { return run_initialization(job); });
  }
  for (auto& [owner, its] : in_background)
    owner->begin_in_background([its = std::move(its)] {
      ncclResult_t result = ncclSuccess;
      for (const Initialization& job : its) {
        const ncclResult_t ended = job.parent != nullptr ? run_initialization(job) : job.run();
        if (result == ncclSuccess) result = ended;
      }
      return result;
    });
  const ncclResult_t result = run_side_by_side(jobs);
  return result == ncclSuccess && !in_background.empty() ? ncclInProgress : result;
}

// A communicator whose connecting failed may be one that another thread has aborted and now frees:
// it is not touched again after its lock was given up.
ncclResult_t Group::run_operations(const std::vector<ncclComm*>& comms) {
  std::vector<std::function<ncclResult_t()>> connects;
  std::vector<char> connected(comms.size(), 0);
  for (size_t i = 0; i < comms.size(); ++i) {
    connects.push_back([&, i] {
      std::lock_guard lock(comms[i]->busy());
      ncclResult_t result = comms[i]->check_pending();
      if (result == ncclSuccess) result = comms[i]->connect_pending();
      if (result != ncclSuccess) comms[i]->drop_pending();
      connected[i] = result == ncclSuccess;
      return result;
    });
  }
  ncclResult_t result = run_side_by_side(connects);
  for (size_t i = 0; i < comms.size(); ++i) {
    if (!connected[i]) continue;
    std::lock_guard lock(comms[i]->busy());
    if (result == ncclSuccess) result = comms[i]->launch_pending();
    comms[i]->drop_pending();
  }
  return result;
}

}  // namespace amem::minccl
