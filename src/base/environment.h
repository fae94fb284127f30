// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace amem {

/// Whether amem sets NCCL_CUMEM_ENABLE (AMEM_CUMEM). Without it NCCL's memory cannot be released.
enum class CumemMode { force, respect };

/// What AMEM_DEBUG explains.
enum class DebugMode { none, access };

/// After which calls a program is at a safe point (AMEM_SAFE_POINT). Read in Python.
enum class SafePoint { none, optimizer };

/// The form of a line of the log (base/log.h).
enum class LogFormat { text, logfmt, json };

/// The logical group of this process (AMEM_GROUP).
struct Group {
  long number = 0;  ///< ncclGetGroupID()
  std::string name;
};

/// The settings of this process. Read at the first call of amem, constant afterwards.
struct Environment {
  bool enable = false;
  Group group;
  long free_tag = 0;
  long log_level = 3;
  std::string log_file;
  LogFormat log_format = LogFormat::text;
  /// The rank that the launcher has given this process: RANK (torchrun), OMPI_COMM_WORLD_RANK,
  /// PMI_RANK or SLURM_PROCID; empty without one.
  std::string rank;
  CumemMode cumem = CumemMode::force;
  std::string nccl_path;
  long timeout_ms = 60000;
  long gate_timeout_ms = 1800000;
  long resume_wait_ms = 0;
  bool resume_on_call = false;
  bool slab = true;
  bool trim_context = false;
  bool multicast = false;
  bool release_multicast = false;
  std::string job_key;
  bool nvshmem = false;  ///< read when amem is enabled (nvshmem_calls.cc)
  std::string tms;       ///< read in Python (amem_flags.py), like the next one
  std::string tms_nccl;
  std::string tensors;
  std::string backup_directory;
  long cycle_every = 0;
  bool remote = true;
  bool attribution = false;  ///< read when amem is enabled (memory_calls.cc)
  SafePoint safe_point = SafePoint::none;
  DebugMode debug = DebugMode::none;  ///< read earlier by clients/tensors/access_debug.cc
  long host_limit_mib = 0;
  long host_keep_mib = 0;
  long host_prealloc_mib = 0;
  /// One sentence for each variable with an illegal value or an unknown name. The default is used.
  std::vector<std::string> complaints;
};

/// Tags that applications cannot give to memory: those of other clients, and of the engine.
bool is_reserved_tag(std::string_view tag);

/// 1, true, yes or on, or 0, false, no or off, in any case. Nothing for another text or nullptr.
/// python/amem_flags.py has the same words.
std::optional<bool> flag_of(const char* text);

/// Reads the variables of environment.def from `environ_block`: NAME=value strings, terminated by
/// nullptr.
Environment read_environment(const char* const* environ_block);

/// The value that a variable has now, "" if it is not set. For what amem intercepts when it is
/// loaded or enabled, because the program may still set the others, and for variables of NCCL.
const char* variable_now(const char* name);

/// The settings of this process, read at the first call. Thread-safe.
const Environment& environment();

/// The value of a variable that is a number or a flag; nothing for another name.
std::optional<long> number_setting(std::string_view name);

/// Set by amemEnable().
inline constinit std::atomic<bool> g_enabled{false};

/// True if AMEM_ENABLE is true or amemEnable() was called. Relaxed: what is used if it is true has
/// orders of its own (base/active.h, Process::build_once()).
inline bool is_enabled() {
  return g_enabled.load(std::memory_order_relaxed) || environment().enable;
}

}  // namespace amem
