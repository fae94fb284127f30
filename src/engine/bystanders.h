// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <memory>
#include <set>
#include <vector>

#include "engine/engine_context.h"
#include "engine/replies.h"

namespace amem {

/// Members of our communicators that import nothing of ours: opposite ranks of a ring, ranks that
/// NCCL connects through host memory or sockets. They have nothing to let go of, but their calls on
/// the communicators that we share shall wait for us instead of running into a collective that
/// cannot end.
///
/// Nobody knows who they are, so every amem process of this user on this host is told the
/// identities of our communicators; one that knows none of them is not affected. Their answers are
/// waited for only for a moment, since one that is stopped may be no member at all: a call that
/// slips in before the message waits on the GPU, as it would in plain NCCL.
///
/// Threads: the session's. The member that receives acts in Neighbours.
class Bystanders {
 public:
  explicit Bystanders(EngineContext& context) : context_(context) {}

  /// How long a pause waits for a process that does not answer and may be a member.
  static constexpr int kMomentMs = 200;

  /// Tells all but `informed`, who hear it another way. Wait for them, no longer than a moment,
  /// with the replies it returns.
  std::shared_ptr<Replies> announce_away(const std::vector<ScopeId>& scope,
                                         const std::set<InstanceId>& informed, Deadline deadline);
  /// Tells those who were told, but for `informed`.
  void announce_back(const std::set<InstanceId>& informed);

 private:
  void send_back(const InstanceId& process, Deadline deadline);
  void find_processes(const std::vector<ScopeId>& scope);

  EngineContext& context_;
  /// Processes of this user when we last looked, and our communicators at that time: a member has
  /// its service running before it enters the call that makes a communicator.
  std::set<InstanceId> processes_;
  std::vector<ScopeId> looked_for_;
  std::set<InstanceId> told_;
};

}  // namespace amem
