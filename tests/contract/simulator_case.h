// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "tests/contract/gpu_test.h"

namespace amem::contract {

/// What the simulated driver offers besides the driver's functions (sim/sim.h).
struct SimulatorApi {
  int (*set_fault)(const char*);
  void (*set_leftover)(unsigned);
  long long (*call_count)(const char*);
  void (*reset)();
  long long (*used_bytes)(int);
};

/// Tests that only the simulated driver can take; skipped on a real one.
class SimulatorCase : public GpuTest {
 protected:
  void SetUp() override {
    if (!driver_is_simulated()) GTEST_SKIP() << "this is a real driver";
    GpuTest::SetUp();
    api_ = {reinterpret_cast<int (*)(const char*)>(driver_symbol("amemSimSetFault")),
            reinterpret_cast<void (*)(unsigned)>(driver_symbol("amemSimSetLeftover")),
            reinterpret_cast<long long (*)(const char*)>(driver_symbol("amemSimCallCount")),
            reinterpret_cast<void (*)()>(driver_symbol("amemSimReset")),
            reinterpret_cast<long long (*)(int)>(driver_symbol("amemSimUsedBytes"))};
    api_.reset();
  }

  void TearDown() override {
    if (!driver_is_simulated()) return;
    api_.reset();
    GpuTest::TearDown();
  }

  SimulatorApi api_ = {};
};

}  // namespace amem::contract
