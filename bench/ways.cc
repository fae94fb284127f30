// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "bench/ways.h"

namespace bench {

namespace {

std::function<double(Workload&)> ordering(const char* order) {
  return [order](Workload& workload) { return slowest(workload.job().all(order)); };
}

}  // namespace

Way amem_way() { return {"amem", ordering("pause"), ordering("resume")}; }

Way recreate_way() {
  return {"recreate", [](Workload& workload) { return workload.tear_down(); },
          [](Workload& workload) { return workload.set_up(); }};
}

Way suspend_way() { return {"suspend", ordering("nccl_suspend"), ordering("nccl_resume")}; }

bool has_native_suspend(const Contender& contender) {
  jobs::RankProcess probe(contender.setup, {});
  return probe.ask("exports ncclCommSuspend") == "1" && probe.ask("exports ncclCommResume") == "1";
}

}  // namespace bench
