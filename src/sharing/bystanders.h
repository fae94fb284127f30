// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "sharing/process_context.h"
#include "sharing/replies.h"

namespace amem {

/// Processes that share this process' scope and import none of its memory. They have nothing to
/// revoke, but their work in this scope must wait, or it would wait on the GPU for a process that
/// is paused.
///
/// Nobody knows who they are, so every amem process of this user on this host is told the scope;
/// one that knows none of its names is not affected. Their answers are
/// waited for only for a moment, since one that is stopped may be no member at all: a call that
/// comes before the message waits on the GPU, as it would without amem.
///
/// Threads: the session's. The member that receives acts in Imports.
class Bystanders {
 public:
  explicit Bystanders(ProcessContext& context) : context_(context) {}

  /// Tells all but `informed`, who hear it another way. `replies` gets their answers: success, at
  /// once or after a moment.
  void announce_away(const Tag& tag, const std::vector<ScopeId>& scope,
                     const std::set<InstanceId>& informed, Deadline deadline,
                     const std::shared_ptr<Replies>& replies);
  /// Tells those who were told of this tag, but for `informed`.
  void announce_back(const Tag& tag, const std::set<InstanceId>& informed);

 private:
  void send_back(const Tag& tag, const InstanceId& process, Deadline deadline);
  void find_processes(const std::vector<ScopeId>& scope);

  ProcessContext& context_;
  /// Processes of this user when we last looked, and our scope at that time: a process has its
  /// service running before it shares anything.
  std::set<InstanceId> processes_;
  std::vector<ScopeId> looked_for_;
  std::map<Tag, std::set<InstanceId>> told_;
};

}  // namespace amem
