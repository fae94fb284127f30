// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tests/process/simulated_hosts.h"
#include "tests/process/simulated_job.h"
#include "tests/support/driver_functions.h"

namespace amem {

/// The driver functions that amem calls.
inline std::vector<std::string> driver_calls_of_amem() {
  const std::set<std::string> names = simulated_driver_functions();
  return {names.begin(), names.end()};
}

/// A job whose library is built with AMEM_SEEDED_FAULTS, on the simulated GPU.
class FaultTest : public JobTest {
 protected:
  static constexpr long kTimeoutMs = 2500 * kSlowdown;

  FaultTest() {
    setup_.rank_program = AMEM_SEEDED_RANK;
    setup_.environment["AMEM_TIMEOUT_MS"] = std::to_string(kTimeoutMs);
    setup_.environment["GMM_LOG"] = "0";
    if (getenv("AMEM_TEST_HOSTS") == nullptr) return;
    hosts_.emplace();
    hosts_->place(&setup_, {0, 1, 0});
  }

  /// With AMEM_TEST_HOSTS=1: rank 1 of three is on another host.
  std::optional<SimulatedHosts> hosts_;

  /// The allocations that NCCL never frees: with fabric handles one for each communicator (fabric.h
  /// of minccl).
  static size_t leaked_by_nccl(size_t communicators) {
    return getenv("AMEM_SIM_FABRIC") != nullptr ? communicators : 0;
  }

  static constexpr int kActive = 0, kPaused = 2;
  static int state(jobs::RankProcess& rank) { return std::stoi(rank.ask("state")); }

  /// Ranks on devices of their own with one communicator, all connected.
  static void connect(jobs::Job& job) {
    job.use_devices(first_devices(job.size()));
    job.make("world");
    job.all("all_reduce world 2000");
  }
};

}  // namespace amem
