// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstdint>
#include <string>

/// The environment of the simulated driver; sim.h documents the variables. Illegal numbers are
/// ignored.
namespace amem::sim {

std::string machine_folder();
int wanted_device_count();
uint64_t wanted_device_memory_bytes();
uint64_t wanted_host_memory_bytes();
uint64_t initial_local_memory_bytes();
std::string fabric_domain();  ///< empty: without an IMEX channel
bool multicast_supported();
/// Objects of multicast to which memory can be bound at a time.
uint64_t multicast_slots();
int compute_capability();  ///< 90: 9.0
std::string initial_faults();
std::string initial_delays();

}  // namespace amem::sim
