// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <compare>
#include <map>
#include <set>

#include "base/mutex.h"
#include "base/result.h"

namespace amem {

/// A client whose work can be captured into CUDA graphs.
class GraphGate {
 public:
  /// Lets in the launch of a graph with work that was captured for `object`, such as a
  /// communicator. If a rank is paused, waits for it if it `may_wait`, and otherwise fails at once
  /// with ErrorKind::timeout. leave_launch() must follow on the same thread, unless it fails.
  virtual Status enter_launch(const char* call, const void* object, bool may_wait) = 0;
  virtual void leave_launch(const void* object) = 0;

 protected:
  ~GraphGate() = default;
};

/// Which clients' work is in which graphs.
///
/// A graph is known from the capture of such work. An executable graph has the work that its graph
/// has when it is instantiated. Graphs that contain other graphs, clones, and updates of executable
/// graphs are not followed. Thread-safe.
class CapturedGraphs {
 public:
  struct Use {
    GraphGate* gate;
    const void* object;
    auto operator<=>(const Use&) const = default;
  };
  using Uses = std::set<Use>;

  /// Work for the object has been captured into this graph (CUgraph).
  void captured(const void* graph, const Use& use);
  /// `exec`: the CUgraphExec that the graph has become.
  void instantiated(const void* graph, const void* exec);
  /// Of either kind.
  void destroyed(const void* graph);
  Uses uses_of(const void* exec);

 private:
  Mutex mutex_;
  // Two tables: the driver may give a graph the address of an executable one that was destroyed.
  std::map<const void*, Uses> graphs_ AMEM_GUARDED_BY(mutex_), execs_ AMEM_GUARDED_BY(mutex_);
};

/// Enters all gates of a graph's work for one launch on the calling thread, or none. A launch that
/// waits at a closed gate is inside no gate, because a pause that closes another gate waits for the
/// calls inside. An error says why a gate has refused the launch; otherwise leave_gates() must
/// follow on the same thread.
Status enter_gates(const char* call, const CapturedGraphs::Uses& uses);
void leave_gates(const CapturedGraphs::Uses& uses);

}  // namespace amem
