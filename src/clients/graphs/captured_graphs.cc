// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/graphs/captured_graphs.h"

#include <atomic>

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
    execs_[exec] = std::make_shared<const Uses>(found->second);
}

void CapturedGraphs::graph_destroyed(const void* graph) {
  MutexLock lock(mutex_);
  graphs_.erase(graph);
}

void CapturedGraphs::exec_destroyed(const void* exec) {
  MutexLock lock(mutex_);
  execs_.erase(exec);
}

std::shared_ptr<const CapturedGraphs::Uses> CapturedGraphs::uses_of(const void* exec) {
  MutexLock lock(mutex_);
  const auto found = execs_.find(exec);
  return found == execs_.end() ? nullptr : found->second;
}

namespace {

constinit std::atomic<CapturedGraphs*> g_graphs{nullptr};

}  // namespace

CapturedGraphs& captured_graphs() {
  CapturedGraphs* graphs = g_graphs.load();
  if (graphs != nullptr) return *graphs;
  auto fresh = std::make_unique<CapturedGraphs>();
  return g_graphs.compare_exchange_strong(graphs, fresh.get()) ? *fresh.release() : *graphs;
}

void forget_captured_graphs() { g_graphs.store(nullptr); }

}  // namespace amem
