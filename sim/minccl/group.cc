// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sim/minccl/group.h"

#include <algorithm>
#include <thread>
#include <utility>

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

Group& Group::current() {
  thread_local Group group;
  return group;
}

void Group::add_initialization(ncclComm* comm, ncclComm_t* place,
                               std::function<ncclResult_t()> run) {
  initializations_.push_back({comm, place, std::move(run)});
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

ncclResult_t Group::end() {
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
  bool operates = result == ncclSuccess || result == ncclInProgress;
  if (operates && !comms.empty())
    if (ncclResult_t launched = run_operations(comms); launched != ncclSuccess) result = launched;
  for (ncclComm* comm : comms) comm->drop_pending();
  return result;
}

void Group::give_up(const Initialization& job) {
  if (job.comm != nullptr && job.comm->free(FreeMode::abort) == ncclSuccess) delete job.comm;
  *job.place = nullptr;
}

ncclResult_t Group::run_initialization(const Initialization& job) {
  ncclResult_t result = job.run();
  if (result != ncclSuccess) give_up(job);
  return result;
}

ncclResult_t Group::run_initializations(const std::vector<Initialization>& initializations) {
  std::vector<std::function<ncclResult_t()>> jobs;
  bool in_background = false;
  for (const Initialization& job : initializations) {
    if (job.comm != nullptr && !job.comm->blocking) {
      in_background = true;
      job.comm->begin_in_background(job.run);
    } else {
      jobs.push_back([&job] { return run_initialization(job); });
    }
  }
  ncclResult_t result = run_side_by_side(jobs);
  return result == ncclSuccess && in_background ? ncclInProgress : result;
}

ncclResult_t Group::run_operations(const std::vector<ncclComm*>& comms) {
  std::vector<std::function<ncclResult_t()>> connects;
  for (ncclComm* comm : comms) {
    MINCCL_TRY(comm->check_pending());
    connects.push_back([comm] {
      std::lock_guard lock(comm->busy());
      return comm->connect_pending();
    });
  }
  MINCCL_TRY(run_side_by_side(connects));
  for (ncclComm* comm : comms) {
    std::lock_guard lock(comm->busy());
    MINCCL_TRY(comm->launch_pending());
  }
  return ncclSuccess;
}

}  // namespace amem::minccl
