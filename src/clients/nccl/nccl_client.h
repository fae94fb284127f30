// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <functional>

#include "clients/nccl/buffer_contents.h"
#include "clients/nccl/gate/async_communicators.h"
#include "clients/nccl/gate/call_gate.h"
#include "clients/nccl/gate/capture_watch.h"
#include "clients/nccl/gate/derived_communicators.h"
#include "clients/nccl/gate/membership.h"
#include "memory/client.h"
#include "memory/registry.h"

namespace amem {

/// NCCL as a client of the engine. Its work passes the gates. Its scope are its communicators.
class NcclClient final : public Client {
 public:
  struct Settings {
    long gate_timeout_ms = 60000;
    ContentSettings contents{};
    /// Makes this process reachable for peers. Called before a communicator is created.
    std::function<void()> meet_peers;
  };

  NcclClient(const Driver& driver, Registry& registry, Settings settings)
      : driver_(driver), registry_(registry), settings_(std::move(settings)) {}

  CallGate& gate() { return gate_; }
  CaptureWatch& captures() { return captures_; }
  AsyncCommunicators& async_communicators() { return async_; }
  DerivedCommunicators& derived_communicators() { return derived_communicators_; }
  /// The processes that may be members of each communicator.
  Membership& members() { return members_; }
  /// How long a call waits for a paused member of its communicator.
  long gate_timeout_ms() const { return settings_.gate_timeout_ms; }
  void meet_peers() {
    if (settings_.meet_peers) settings_.meet_peers();
  }
  /// NCCL has returned ncclInProgress, or may have.
  void note_in_progress() {
    captures_.expect_background_work();
    async_.note_in_progress();
  }

  bool owns(const Tag& tag) const override { return tag == kNcclTag; }
  Tags tags() const override { return {kNcclTag}; }
  size_t kept_bytes(const Allocation& allocation) const override {
    return amem::kept_bytes(allocation, settings_.contents);
  }
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
  bool has_memory();
  Status check_capture();
  Status check_ungated();
  Status check_proxy_copies();

  const Driver& driver_;
  Registry& registry_;
  const Settings settings_;
  CallGate gate_;
  CaptureWatch captures_{gate_};
  AsyncCommunicators async_{gate_};
  DerivedCommunicators derived_communicators_;
  Membership members_;
};

}  // namespace amem
