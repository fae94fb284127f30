// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <thread>

#include "clients/nccl/buffer_contents.h"
#include "clients/nccl/gate/call_gate.h"
#include "clients/nccl/gate/communicator_id.h"

namespace amem {

inline const CommunicatorId kFirst = communicator_from_bytes("first", 5);
inline const CommunicatorId kSecond = communicator_from_bytes("second", 6);
inline const CommunicatorId kUnknown = communicator_from_bytes("unknown", 7);

/// An open gate of two communicators.
class CallGateFixture : public testing::Test {
 protected:
  CallGateFixture() {
    gate_.add_communicator(comm(1), kFirst);
    gate_.add_communicator(comm(2), kSecond);
  }
  /// A call that returns at once.
  Status enter(const char* call, const void* communicator, long timeout_ms) {
    const CallGate::Entry entry(gate_, call, communicator, timeout_ms);
    return entry.is_inside() ? ok_status() : Status(entry.refusal());
  }
  /// "thread 4711 is inside ncclSend ...", or "".
  std::string who_is_inside(const CommunicatorIds* ids) {
    Status outside = ok_status();
    std::thread([&] { outside = gate_.wait_until_outside(ids, Deadline::after_ms(0)); }).join();
    return outside.ok() ? "" : outside.error().message;
  }
  static const void* comm(uintptr_t n) { return reinterpret_cast<const void*>(n); }

  // What messages say of a member. `ids` contains kNoIdentity if it shares memory.
  void member_paused(const InstanceId& member, const std::string& text, const Scope& ids) {
    (void)peers_.pause(member, {kNcclTag}, text, ids, contains(ids, kNoIdentity));
  }
  void member_resumed(const InstanceId& member) {
    (void)peers_.reopen(member, kNcclTag, peers_.of(member, kNcclTag).notices);
  }
  void member_ended(const InstanceId& member, const std::string& text) {
    peers_.end(member, text, {kNcclTag});
  }
  /// It was not paused, and has said what it shares.
  void member_lost(const InstanceId& member, const std::string& text, const Scope& ids) {
    peers_.members.note(member, ids);
    peers_.lose(member, kNcclTag, text, gate_.communicator_ids());
  }

  PeerTable peers_;
  CallGate gate_{peers_};
  const InstanceId member_ = random_instance_id();
};

}  // namespace amem
