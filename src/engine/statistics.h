// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <map>
#include <string>
#include <vector>

#include "registry/registry.h"

namespace amem {

/// Bytes and objects of one kind on one device; imports are counted apart from what this process
/// owns.
struct MemoryTotals {
  size_t objects = 0;
  size_t allocated_bytes = 0;  ///< what NCCL allocated
  size_t resident_bytes = 0;   ///< of these, on the GPU now
  size_t released_bytes = 0;   ///< of these, not on the GPU now
  size_t saved_bytes = 0;      ///< host memory that holds contents of released ones
  size_t fixed_bytes = 0;      ///< never released: persistent, or in a slab with what is

  void add(const MemoryTotals& other);
};

/// Who allocated, by what we can tell from outside: the `caller_N` of ncclMemStats' lines.
enum class Caller {
  private_memory = 1,   ///< this process alone uses it
  shared_memory = 3,    ///< exported to other processes: P2P buffers
  user_memory = 5,      ///< ncclMemAlloc
  imported_memory = 7,  ///< other processes' memory, mapped here
};

/// What the driver has of it, fixed backings included.
struct DriverObjects {
  size_t own = 0;
  size_t own_bytes = 0;  ///< on the GPU or released
  size_t imported = 0;
};

struct Statistics {
  std::map<std::pair<int, Kind>, MemoryTotals> by_device_and_kind;  ///< what this process owns
  MemoryTotals imports;
  DriverObjects driver_objects;
  std::map<Caller, size_t> by_caller;
  std::map<std::string, size_t> persistent_reasons;  ///< why bytes are never released
};

Statistics take_statistics(Registry& registry);

/// The lines that ncclMemStats() prints, without line ends.
std::vector<std::string> format_statistics(const Statistics& statistics, long group, int pid);

/// The same for the `amem` command, as one JSON object.
std::string statistics_json(const Statistics& statistics, long group, int pid, const char* state);

}  // namespace amem
