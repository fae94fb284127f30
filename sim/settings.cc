// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sim/settings.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "sim/machine.h"

namespace amem::sim {
namespace {

std::string text(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

uint64_t number(const char* name, uint64_t otherwise, uint64_t least = 1) {
  const std::string value = text(name);
  uint64_t parsed = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed);
  const bool whole = error == std::errc() && end == value.data() + value.size();
  return whole && parsed >= least ? parsed : otherwise;
}

constexpr uint64_t kMaxMemoryMb = 1ull << 20;

// Physical memory is handed out in pieces of the granularity; less than one piece is none.
uint64_t memory_bytes(const char* name) {
  const uint64_t bytes = std::min(number(name, 4096), kMaxMemoryMb) << 20;
  return std::max(bytes / kGranularityBytes * kGranularityBytes, kGranularityBytes);
}

}  // namespace

std::string machine_folder() {
  const std::string given = text("AMEM_SIM_DIR");
  return given.empty() ? "/dev/shm/amem-sim-" + std::to_string(geteuid()) : given;
}

int wanted_device_count() {
  return static_cast<int>(std::min<uint64_t>(number("AMEM_SIM_DEVICES", 4), kMaxDevices));
}

uint64_t wanted_device_memory_bytes() { return memory_bytes("AMEM_SIM_MEMORY_MB"); }
uint64_t wanted_host_memory_bytes() { return memory_bytes("AMEM_SIM_HOSTMEM"); }
uint64_t initial_local_memory_bytes() {
  return std::min(number("AMEM_SIM_LOCAL_MB", 8, 0), kMaxMemoryMb) << 20;
}
std::string fabric_domain() { return text("AMEM_SIM_FABRIC"); }
bool multicast_supported() { return text("AMEM_SIM_MULTICAST") == "1"; }
uint64_t multicast_slots() { return number("AMEM_SIM_MULTICAST_SLOTS", 128); }
int compute_capability() {
  return static_cast<int>(std::min<uint64_t>(number("AMEM_SIM_COMPUTE", 90), 999));
}
std::string initial_faults() { return text("AMEM_SIM_FAULT"); }
std::string initial_delays() { return text("AMEM_SIM_DELAY_US"); }

}  // namespace amem::sim
