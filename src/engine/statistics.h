// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "amem.h"
#include "contents/host_pool.h"
#include "engine/session_counters.h"
#include "memory/registry.h"

namespace amem {

/// The origin of an allocation, as far as amem can tell: `caller_N` in the output.
enum class Caller {
  private_memory = 1,   ///< used by this process only
  shared_memory = 3,    ///< exported to other processes: P2P buffers
  user_memory = 5,      ///< allocated by the application through its client
  imported_memory = 7,  ///< memory of other processes, mapped here
};

/// The key of the sums.
struct MemoryKey {
  Tag tag;
  int device = 0;
  Kind kind = Kind::keep;
  auto operator<=>(const MemoryKey&) const = default;
};

struct Statistics {
  /// Memory of this process. `fixed_bytes` includes slabs with persistent memory.
  std::map<MemoryKey, amemTotals_t> own;
  amemTotals_t imports{};
  amemDriverObjects_t driver_objects{};  ///< including those that are never released
  std::map<Caller, size_t> by_caller;
  /// Bytes that are never released, by tag and reason.
  std::map<std::pair<Tag, std::string>, size_t> persistent;
};

Statistics take_statistics(Registry& registry);

/// Of memory with these tags that is never released: ", 128 MiB stay on the GPU (registered with a
/// NIC)", or "".
std::string text_of_persistent(Registry& registry, const Tags& tags);

/// The sum over this process's memory of one tag, device and kind; nullopt means all.
amemTotals_t sum_of(const Statistics& statistics, std::optional<std::string_view> tag,
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
  std::string group_name = {};  ///< AMEM_GROUP
  HostPool::Use host = {};
  SessionCounters counters = {};
  std::string remote_json = "{}";                  ///< RemoteControl::json()
  std::optional<size_t> host_capacity_bytes = {};  ///< only for amemGetStatus(), with more details
  std::map<Tag, std::string> awaited = {};  ///< the paused peers for which calls with a tag wait
};

/// Of a sentence: what JSON would have to escape becomes a space.
std::string text_json(std::string text);

/// The statistics as one JSON object, for the `amem` command and amemGetStatus().
std::string statistics_json(const Statistics& statistics, const ProcessFacts& facts);

}  // namespace amem
