// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/unique_fd.h"
#include "sim/cuda_abi.h"
#include "sim/pool.h"

/// The simulated machine: its GPUs and the state that its processes share. It is a folder
/// (AMEM_SIM_DIR) with one file for each GPU, one for the host's memory and a small state file.
namespace amem::sim {

inline constexpr int kMaxDevices = 16;
/// Locked while memory of the first pool is allocated, in the state file; the other pools follow.
inline constexpr uint64_t kFirstPoolByte = (1ull << 20) + 2;
/// Read-locked, in the state file, while something is bound to the object with this slot.
inline constexpr uint64_t kFirstMulticastByte = kFirstPoolByte + kMaxDevices + 1;

struct SharedState {
  uint64_t magic;
  uint32_t device_count;
  uint64_t device_memory_bytes;
  uint64_t host_memory_bytes;
  std::array<PoolState, kMaxDevices + 1> pools;
};

class Machine {
 public:
  /// Joins the machine. Called by cuInit, any number of times.
  static CuResult join();

  /// Null before the first successful join. Never destroyed.
  static Machine* joined();

  int device_count() const { return device_count_; }
  Pool& device(int ordinal) { return pools_[static_cast<size_t>(ordinal)]; }
  Pool& host() { return pools_[kMaxDevices]; }

  /// A new open file description of the state file, which ends with its locks. Invalid if that
  /// fails.
  UniqueFd open_locks() const;

  /// The pool of a descriptor and its range there.
  struct Found {
    Pool* pool;
    CuLocation location;
    PhysicalRange range;
  };
  std::optional<Found> find(int fd) const;

 private:
  CuResult open();
  bool prepare_folder();
  bool map_state();
  bool initialise_if_alone(bool alone);
  bool open_pools();

  std::string folder_;
  UniqueFd state_fd_;
  SharedState* state_ = nullptr;
  int device_count_ = 0;
  std::array<Pool, kMaxDevices + 1> pools_;
};

}  // namespace amem::sim
