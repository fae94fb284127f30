// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <map>
#include <set>
#include <vector>

#include "base/call_counts.h"
#include "base/mutex.h"

namespace amem {

/// Which importers are in step with us in one pause, by what they had called when they let go.
///
/// Thread-safe.
class InStep {
 public:
  explicit InStep(CallCounts ours) : ours_(std::move(ours)) {}

  void add(const InstanceId& importer, CallCounts theirs);

  /// Are these in step with us, and with each other? NCCL lets two processes talk through the
  /// buffer of a third where their GPUs have no link (p2p.cc:468@v2.28.9-1).
  bool are(const std::set<InstanceId>& importers);

 private:
  bool compare(const std::set<InstanceId>& importers) AMEM_REQUIRES(mutex_);

  const CallCounts ours_;
  Mutex mutex_;
  std::map<InstanceId, CallCounts> calls_ AMEM_GUARDED_BY(mutex_);
  std::map<std::set<InstanceId>, bool> known_ AMEM_GUARDED_BY(mutex_);  ///< what was compared
};

}  // namespace amem
