// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "memory/registry.h"

namespace amem {

/// Sums for one tag, device and kind. Imports are counted separately.
struct MemoryTotals {
  size_t objects = 0;
  size_t allocated_bytes = 0;  ///< bytes that clients allocated
  size_t resident_bytes = 0;   ///< of these, on the GPU now
  size_t released_bytes = 0;   ///< of these, not on the GPU now
  size_t saved_bytes = 0;      ///< host memory that holds their contents
  size_t fixed_bytes = 0;      ///< never released: persistent, or in a slab with persistent memory

  void add(const MemoryTotals& other);
};

/// The origin of an allocation, as far as amem can tell: `caller_N` in the output.
enum class Caller {
  private_memory = 1,   ///< used by this process only
  shared_memory = 3,    ///< exported to other processes: P2P buffers
  user_memory = 5,      ///< allocated by the application through its client
  imported_memory = 7,  ///< memory of other processes, mapped here
};

/// The driver objects, including those that are never released.
struct DriverObjects {
  size_t own = 0;
  size_t own_bytes = 0;  ///< on the GPU or released
  size_t imported = 0;
};

/// The key of the sums.
struct MemoryKey {
  Tag tag;
  int device = 0;
  Kind kind = Kind::keep;
  auto operator<=>(const MemoryKey&) const = default;
};

struct Statistics {
  std::map<MemoryKey, MemoryTotals> own;  ///< memory of this process
  MemoryTotals imports;
  DriverObjects driver_objects;
  std::map<Caller, size_t> by_caller;
  std::map<std::string, size_t> persistent_reasons;  ///< reasons of memory that is never released
};

Statistics take_statistics(Registry& registry);

/// The sum over this process's memory of one tag, device and kind; nullopt means all.
MemoryTotals sum_of(const Statistics& statistics, std::optional<std::string_view> tag,
                    std::optional<int> device, std::optional<Kind> kind);

/// The statistics as lines, without line ends.
std::vector<std::string> format_statistics(const Statistics& statistics, long group, int pid);

/// What the statistics do not contain.
struct ProcessFacts {
  int pid = 0;
  long group = 0;
  std::map<Tag, std::string> states;  ///< the state of each tag
  size_t context_bytes = 0;           ///< local memory of contexts that is currently returned
  /// A name of the device that is the same in all processes, or "".
  std::function<std::string(int device)> gpu_of;
};

/// The statistics as one JSON object, for the `amem` command.
std::string statistics_json(const Statistics& statistics, const ProcessFacts& facts);

}  // namespace amem
