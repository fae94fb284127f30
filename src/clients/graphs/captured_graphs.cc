// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/graphs/captured_graphs.h"

#include <algorithm>

namespace amem {

void CapturedGraphs::captured(const void* graph, const Use& use) {
  MutexLock lock(mutex_);
  graphs_[graph].insert(use);
}

void CapturedGraphs::instantiated(const void* graph, const void* exec) {
  MutexLock lock(mutex_);
  const auto found = graphs_.find(graph);
  // The driver may give a new executable graph the address of one that was destroyed.
  if (found == graphs_.end())
    execs_.erase(exec);
  else
    execs_[exec] = found->second;
}

void CapturedGraphs::destroyed(const void* graph) {
  MutexLock lock(mutex_);
  graphs_.erase(graph);
  execs_.erase(graph);
}

CapturedGraphs::Uses CapturedGraphs::uses_of(const void* exec) {
  MutexLock lock(mutex_);
  const auto found = execs_.find(exec);
  return found == execs_.end() ? Uses() : found->second;
}

constexpr auto kLeave = [](const CapturedGraphs::Use& use) { use.gate->leave_launch(use.object); };

Status enter_gates(const char* call, const CapturedGraphs::Uses& uses) {
  for (auto use = uses.begin(); use != uses.end();) {
    Status entered = use->gate->enter_launch(call, use->object, false);
    if (entered.ok()) {
      ++use;
      continue;
    }
    std::for_each(uses.begin(), use, kLeave);
    if (entered.error().kind != ErrorKind::timeout) return entered;
    AMEM_TRY(use->gate->enter_launch(call, use->object, true));
    kLeave(*use);
    use = uses.begin();
  }
  return ok_status();
}

void leave_gates(const CapturedGraphs::Uses& uses) {
  std::for_each(uses.begin(), uses.end(), kLeave);
}

}  // namespace amem
