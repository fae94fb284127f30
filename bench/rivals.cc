// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "bench/rivals.h"

#include "bench/summary.h"

namespace bench {

nlohmann::json measure_rival(const Way& way, Workload& workload, int cycles) {
  Cycles taken;
  std::vector<uint64_t> freed_bytes;
  for (int i = 0; i < cycles; ++i) {
    const std::vector<uint64_t> active = workload.used_bytes();
    taken.pause_s.push_back(way.pause(workload));
    freed_bytes = less(active, workload.used_bytes());
    taken.resume_s.push_back(way.resume(workload));
  }
  nlohmann::json out = taken.record();
  out["figures"] = "rival";
  out["contender"] = way.contender;
  out["communicators"] = workload.size().communicators;
  out["counts"] = workload.size().counts;
  out["freed_bytes"] = freed_bytes;
  out["verified"] = workload.check();
  return out;
}

}  // namespace bench
