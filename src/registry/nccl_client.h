// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <functional>

#include "registry/call_gate.h"
#include "registry/client.h"
#include "registry/membership.h"
#include "registry/registry.h"

namespace amem {

/// NCCL as a client of the engine: its work is what passes the gates, and what its processes share
/// are communicators.
class NcclClient final : public Client {
 public:
  /// What only those who see NCCL's calls can say.
  struct Watchers {
    /// Waits until none of these communicators, of all when `ids` is nullptr, has an asynchronous
    /// operation in progress (ncclConfig_t::blocking 0): NCCL launches what was called later, on a
    /// thread of its own. Timeout at the deadline.
    std::function<Status(const std::vector<CommunicatorId>* ids, Deadline deadline)>
        wait_until_settled;
    /// Is a stream with NCCL work on it being captured? A capture without any is not disturbed by a
    /// pause.
    std::function<bool()> is_capturing;
  };

  NcclClient(CallGate& gate, const Registry& registry, Watchers watchers)
      : gate_(gate), registry_(registry), watchers_(std::move(watchers)) {}

  /// Which processes may be members of which communicators.
  Membership& members() { return members_; }

  Status check_pause() override;
  Status quiesce(Deadline deadline) override;
  void reopen() override { gate_.open_process(); }
  Scope scope() override { return gate_.communicator_ids(); }
  void forget_scopes(const Scope& own) override { members_.forget(own); }
  void note_scope(const InstanceId& peer, Scope its) override {
    members_.note(peer, std::move(its));
  }

  void close_for_peer(const InstanceId& peer, std::string text, Scope scope) override;
  void close_if_shared(const InstanceId& peer, std::string text, Scope scope) override;
  Status quiesce_for_peer(Scope scope, Deadline deadline) override;
  void reopen_for_peer(const InstanceId& peer) override { gate_.member_back(peer); }
  void peer_ended(const InstanceId& peer, std::string text) override {
    gate_.member_ended(peer, std::move(text));
  }
  void peer_lost(const InstanceId& peer, std::string text) override;

 private:
  Status check_capture();
  Status check_ungated();

  CallGate& gate_;
  const Registry& registry_;
  const Watchers watchers_;
  Membership members_;
};

}  // namespace amem
