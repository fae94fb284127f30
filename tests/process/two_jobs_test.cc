// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Two jobs share the GPUs in turns, as training and inference do: one is paused while the other
// runs. AMEM_TEST_CYCLES says how often they change, 20 when unset.
#include <cinttypes>
#include <fstream>
#include <set>

#include "tests/process/simulated_job.h"

namespace amem {
namespace {

class TwoJobs : public JobTest {
 protected:
  void SetUp() override { AMEM_NEEDS_GPUS(2); }

  static int wanted_cycles() {
    const char* text = getenv("AMEM_TEST_CYCLES");
    return text != nullptr ? std::stoi(text) : 20;
  }

  /// One rank a GPU, with a graph; the job goes by `group`.
  std::unique_ptr<jobs::Job> make_job(const std::string& group) {
    auto job = std::make_unique<jobs::Job>(
        setup_, 2, std::map<std::string, std::string>{{"AMEM_GROUPID", group}});
    job->use_devices(first_devices(2));
    job->make("world");
    job->all("capture world 16384");
    job->all("check world" + counts());
    return job;
  }

  using Addresses = std::set<uint64_t>;

  /// Where a rank has device memory, in steps of the granularity: mappings of the files that are
  /// the simulated GPUs' memory. A real driver keeps its mappings to itself.
  Addresses mapped_addresses(jobs::RankProcess& rank) const {
    constexpr uint64_t kStepBytes = 2 << 20;
    Addresses addresses;
    if (real_gpu()) return addresses;
    std::ifstream maps("/proc/" + std::to_string(rank.pid()) + "/maps");
    for (std::string line; std::getline(maps, line);) {
      uint64_t first = 0, end = 0;
      if (!has(line, gpus_.string()) ||
          sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64, &first, &end) != 2)
        continue;
      for (uint64_t address = first; address < end; address += kStepBytes)
        addresses.insert(address);
    }
    return addresses;
  }
  /// Pauses the job, and returns where NCCL had memory in rank 0: what is not there any more.
  Addresses pause(jobs::Job& job) const {
    Addresses gone = mapped_addresses(job[0]);
    job.all("pause");
    for (uint64_t stays : mapped_addresses(job[0])) gone.erase(stays);
    return gone;
  }
  static size_t count_common(const Addresses& one, const Addresses& other) {
    return static_cast<size_t>(std::count_if(
        one.begin(), one.end(), [&](uint64_t address) { return other.contains(address); }));
  }

  /// `leaves` pauses; the GPU loses what that job held, and no byte of the other's. Returns where
  /// that job's NCCL had memory.
  Addresses take_turns(jobs::Job& leaves, jobs::Job& stays) const {
    const Totals own = totals(leaves[0]);
    const Totals others = totals(stays[0]);
    const size_t used_before = used_bytes(leaves[0]);
    Addresses gone = pause(leaves);
    expect_freed(used_before, used_bytes(leaves[0]), own.driver_bytes);
    EXPECT_EQ(totals(leaves[0]).resident, 0u);
    EXPECT_EQ(totals(stays[0]).resident, others.resident);
    stays.all("check world 17 16384");
    stays.all("replay world");
    return gone;
  }
};

TEST_F(TwoJobs, PauseAndResumeIndependently) {
  const int cycles = wanted_cycles();
  auto trainers = make_job("1");
  auto rollouts = make_job("2");

  for (int cycle = 0; cycle < cycles && !HasFailure(); ++cycle) {
    SCOPED_TRACE("cycle " + std::to_string(cycle));
    const Addresses trainers_had = take_turns(*trainers, *rollouts);
    // Both are away for a moment, then the other comes back.
    const Addresses rollouts_had = pause(*rollouts);
    // Both had it at the beginning of this cycle: what was there was the one's and the other's.
    const size_t common = count_common(trainers_had, rollouts_had);
    if (!real_gpu()) {
      EXPECT_GE(common * 10, trainers_had.size() * 9)
          << common << " of " << trainers_had.size() << " are the same";
    }
    trainers->all("resume");
    trainers->all("check world 17 16384");
    trainers->all("replay world");
    rollouts->all("resume");
  }

  trainers->all("check world" + counts());
  rollouts->all("check world" + counts());
}

}  // namespace
}  // namespace amem
