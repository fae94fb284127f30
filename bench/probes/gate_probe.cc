// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// The time of a call through the gate of a communicator, without NCCL: with no paused peer, with
// one that shares nothing with this process, with one that has 500 communicators of another job,
// and with one that shares another communicator of this process (docs/decisions/0006-call-gate.md).
// Prints nanoseconds of one call, for one thread and for four threads with a communicator each. Not
// part of the build:
//
//   g++ -O2 -std=c++20 -ftls-model=initial-exec -Isrc -Iinclude -o gate_probe \
//     bench/probes/gate_probe.cc src/sharing/{membership,peer_table}.cc \
//     $(ls src/base/*.cc src/clients/nccl/gate/*.cc | grep -v _test) &&
//   ./gate_probe
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "clients/nccl/gate/call_gate.h"

namespace {

using amem::CallGate;
using amem::CommunicatorId;
using amem::CommunicatorIds;

constexpr int kCalls = 200000, kRounds = 15;

const void* comm(uintptr_t n) { return reinterpret_cast<const void*>(0x7f0000001000 + n * 0x4c0); }
CommunicatorId id(const std::string& name) {
  return amem::communicator_from_bytes(name.data(), name.size());
}

double time_calls(CallGate& gate, const void* communicator) {
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < kCalls; ++i) {
    const CallGate::Entry entry(gate, "ncclAllReduce", communicator, 0);
    if (!entry.is_inside()) printf("a call is refused: %s\n", entry.refusal().message.c_str());
  }
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - began;
  return took.count() / kCalls;
}

/// The median of the rounds; of each round, that of the slowest thread.
double measure(CallGate& gate, unsigned threads) {
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<double> took(threads);
    std::vector<std::thread> callers;
    for (unsigned i = 0; i < threads; ++i)
      callers.emplace_back([&, i] { took[i] = time_calls(gate, comm(1 + i)); });
    for (std::thread& caller : callers) caller.join();
    rounds.push_back(*std::max_element(took.begin(), took.end()));
  }
  std::sort(rounds.begin(), rounds.end());
  return rounds[kRounds / 2];
}

void print(const char* what, CallGate& gate) {
  const double alone = measure(gate, 1);
  printf("%-48s 1 thread %8.1f ns   4 threads %8.1f ns\n", what, alone, measure(gate, 4));
}

}  // namespace

int main() {
  amem::PeerTable peers;
  CallGate gate(peers);
  for (uintptr_t n = 1; n <= 9; ++n)
    gate.add_communicator(comm(n), id("ours " + std::to_string(n)));
  const amem::InstanceId other = amem::random_instance_id();
  const auto pause = [&](const CommunicatorIds& scope, bool shares) {
    (void)peers.pause(other, {"nccl"}, "process 7 is paused", scope, shares);
  };
  print("no paused peer", gate);
  pause({id("theirs")}, false);
  print("paused: a process that shares nothing", gate);
  CommunicatorIds many;
  for (int n = 0; n < 500; ++n) many.push_back(id("theirs " + std::to_string(n)));
  pause(many, false);
  print("paused: a process with 500 other communicators", gate);
  many.push_back(id("ours 9"));
  pause(many, true);
  print("paused: a member of another communicator", gate);
  (void)peers.reopen(other, "nccl", peers.of(other, "nccl").notices);
  print("resumed", gate);
}
