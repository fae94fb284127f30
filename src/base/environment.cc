// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "base/environment.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string_view>

namespace amem {
namespace {

enum class Type { Flag, Integer, Choice, Text };

struct Row {
  std::string_view name;
  Type type;
  const char* range;
};

constexpr Row kRows[] = {
#define AMEM_VARIABLE(field, name, type, standard, range, meaning) {#name, Type::type, range},
#include "base/environment.def"
#undef AMEM_VARIABLE
};

const Row* find_row(std::string_view name) {
  for (const Row& row : kRows)
    if (row.name == name) return &row;
  return nullptr;
}

/// The least and the greatest legal value, from a range such as "0 to 5" or "0, 1".
struct Bounds {
  long low, high;
};
Bounds bounds_of(const char* range) {
  char* rest = nullptr;
  long low = strtol(range, &rest, 10);
  while (*rest != '\0' && (*rest < '0' || *rest > '9')) ++rest;
  return {low, strtol(rest, nullptr, 10)};
}

/// Reads an integer in the row's range. On error `out` does not change, and a complaint is added.
void read_integer(const Row& row, const char* text, long& out,
                  std::vector<std::string>& complaints) {
  char* end = nullptr;
  errno = 0;
  const long value = strtol(text, &end, 10);
  const Bounds bounds = bounds_of(row.range);
  if (end == text || *end != '\0' || errno != 0 || value < bounds.low || value > bounds.high) {
    complaints.push_back(std::string(row.name) + "=" + text + " is not a number from " +
                         std::to_string(bounds.low) + " to " + std::to_string(bounds.high) +
                         "; using " + std::to_string(out));
    return;
  }
  out = value;
}

/// Reads one of two words; the first is the default. Returns true for the second.
bool read_choice(const Row& row, const char* text, std::vector<std::string>& complaints) {
  const std::string_view range(row.range);
  const size_t comma = range.find(", ");
  const std::string first(range.substr(0, comma)), second(range.substr(comma + 2));
  if (text == second) return true;
  if (text != first)
    complaints.push_back(std::string(row.name) + "=" + text + " is neither " + first + " nor " +
                         second + "; using " + first);
  return false;
}

}  // namespace

Environment read_environment(const char* const* environ_block) {
  Environment out;
  const char* log = nullptr;
  const char* gmm_log = nullptr;
  for (; environ_block != nullptr && *environ_block != nullptr; ++environ_block) {
    const std::string_view entry(*environ_block);
    const size_t equals = entry.find('=');
    if (equals == entry.npos) continue;
    const std::string_view name = entry.substr(0, equals);
    const char* text = *environ_block + equals + 1;
    const Row* row = find_row(name);
    if (row == nullptr) {
      // AMEM_SIM_* belong to the simulated GPU and AMEM_TEST_* to the tests.
      if (name.starts_with("AMEM_") && !name.starts_with("AMEM_SIM_") &&
          !name.starts_with("AMEM_TEST_"))
        out.complaints.push_back("unknown variable " + std::string(name) +
                                 " is ignored (amem env --help lists all)");
      continue;
    }
    if (*text == '\0') continue;
    long enable = 0;
    if (name == "AMEM_ENABLE") {
      read_integer(*row, text, enable, out.complaints);
      out.enable = enable == 1;
    } else if (name == "AMEM_GROUPID") {
      read_integer(*row, text, out.group_id, out.complaints);
    } else if (name == "AMEM_NCCL_OFFLOAD_FREE_TAG") {
      read_integer(*row, text, out.free_tag, out.complaints);
    } else if (name == "AMEM_TIMEOUT_MS") {
      read_integer(*row, text, out.timeout_ms, out.complaints);
    } else if (name == "GMM_LOG") {
      gmm_log = text;
    } else if (name == "AMEM_LOG") {
      log = text;
    } else if (name == "AMEM_CUMEM") {
      const bool respect = read_choice(*row, text, out.complaints);
      out.cumem = respect ? CumemMode::respect : CumemMode::force;
    } else if (name == "AMEM_SLAB") {
      read_integer(*row, text, out.slab, out.complaints);
    } else if (name == "AMEM_TRIM_CONTEXT") {
      read_integer(*row, text, out.trim_context, out.complaints);
    } else if (name == "AMEM_HOST_LIMIT") {
      read_integer(*row, text, out.host_limit_mib, out.complaints);
    } else if (name == "AMEM_HOST_PREALLOC") {
      read_integer(*row, text, out.host_prealloc_mib, out.complaints);
    } else if (name == "AMEM_NCCL_PATH") {
      out.nccl_path = text;
    }
  }
  if (gmm_log != nullptr)
    read_integer(*find_row("GMM_LOG"), gmm_log, out.log_level, out.complaints);
  if (log != nullptr) read_integer(*find_row("AMEM_LOG"), log, out.log_level, out.complaints);
  return out;
}

const Environment& environment() {
  static const Environment* const instance = new Environment(read_environment(environ));
  return *instance;
}

}  // namespace amem
