// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "bench/rivals.h"

#include <functional>

#include "bench/summary.h"

namespace bench {

namespace {

using Step = std::function<double()>;  ///< gives its seconds

nlohmann::json measure(const char* name, Workload& workload, int cycles, const Step& pause,
                       const Step& resume) {
  Cycles taken;
  std::vector<uint64_t> freed_bytes;
  for (int i = 0; i < cycles; ++i) {
    const std::vector<uint64_t> active = workload.used_bytes();
    taken.pause_s.push_back(pause());
    freed_bytes = less(active, workload.used_bytes());
    taken.resume_s.push_back(resume());
  }
  nlohmann::json out = taken.record();
  out["figures"] = "rival";
  out["contender"] = name;
  out["communicators"] = workload.size().communicators;
  out["counts"] = workload.size().counts;
  out["freed_bytes"] = freed_bytes;
  out["verified"] = workload.check();
  return out;
}

}  // namespace

nlohmann::json measure_recreate(Workload& workload, int cycles) {
  return measure(
      "recreate", workload, cycles, [&] { return workload.tear_down(); },
      [&] { return workload.set_up(); });
}

bool has_native_suspend(const Contender& contender) {
  jobs::RankProcess probe(contender.setup, {});
  return probe.ask("exports ncclCommSuspend") == "1" && probe.ask("exports ncclCommResume") == "1";
}

nlohmann::json measure_native_suspend(Workload& workload, int cycles) {
  jobs::Job& job = workload.job();
  return measure(
      "suspend", workload, cycles, [&] { return slowest(job.all("nccl_suspend")); },
      [&] { return slowest(job.all("nccl_resume")); });
}

}  // namespace bench
