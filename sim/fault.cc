// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sim/fault.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "sim/api.h"
#include "sim/backing.h"
#include "sim/settings.h"
#include "sim/sim.h"

namespace amem::sim {
namespace {

struct Row {
  std::string_view name;
  FunctionKind kind;
};

constexpr Row kRows[] = {
#define AMEM_SIM_FUNCTION(name, symbol, since, kind) {#name, FunctionKind::kind},
#include "sim/functions.def"
#undef AMEM_SIM_FUNCTION
};
constexpr size_t kRowCount = std::size(kRows);
constexpr std::string_view kAnyMemoryCall = "*";

struct Fault {
  std::string_view name;  // of a row, or kAnyMemoryCall
  uint64_t first;         // the call that fails, counted from 1
  bool all_later;         // and those after it
  CuResult code;
  uint64_t seen = 0;  // calls since the fault was set
};

struct Delay {
  std::string_view name;
  uint64_t duration_us;
};

bool is_memory_call(FunctionKind kind) {
  return kind == FunctionKind::kMemory || kind == FunctionKind::kUnsafeMemory;
}

bool concerns(std::string_view name, const Row& row) {
  return name == row.name || (name == kAnyMemoryCall && is_memory_call(row.kind));
}

// The name as the table holds it, so that it outlives the text it was read from.
std::optional<std::string_view> known_name(std::string_view name) {
  if (name == kAnyMemoryCall) return kAnyMemoryCall;
  const Row* row = std::find_if(std::begin(kRows), std::end(kRows),
                                [name](const Row& one) { return one.name == name; });
  return row == std::end(kRows) ? std::nullopt : std::optional(row->name);
}

bool parse_number(std::string_view text, uint64_t* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

// name:n=code or name:n..=code
std::optional<Fault> parse_fault(std::string_view text) {
  const size_t equals = text.find('=');
  const size_t colon = text.substr(0, equals).find(':');
  if (equals == std::string_view::npos || colon == std::string_view::npos) return std::nullopt;
  std::string_view which = text.substr(colon + 1, equals - colon - 1);
  const bool all_later = which.ends_with("..");
  if (all_later) which.remove_suffix(2);
  uint64_t first = 0;
  uint64_t code = 0;
  const auto name = known_name(text.substr(0, colon));
  if (!name || !parse_number(which, &first) || first == 0 ||
      !parse_number(text.substr(equals + 1), &code)) {
    return std::nullopt;
  }
  return Fault{*name, first, all_later, static_cast<CuResult>(code)};
}

std::optional<Delay> parse_delay(std::string_view text) {
  const size_t equals = text.find('=');
  uint64_t duration_us = 0;
  if (equals == std::string_view::npos) return std::nullopt;
  const auto name = known_name(text.substr(0, equals));
  if (!name || !parse_number(text.substr(equals + 1), &duration_us)) return std::nullopt;
  return Delay{*name, duration_us};
}

// A comma-separated list; nothing if one item of it is wrong.
template <typename Item>
std::optional<std::vector<Item>> parse_list(std::string_view text,
                                            std::optional<Item> (*parse)(std::string_view)) {
  std::vector<Item> items;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    auto item = parse(text.substr(0, comma));
    if (!item) return std::nullopt;
    items.push_back(*item);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return items;
}

class Calls {
 public:
  static Calls& instance() {
    static auto* calls = new Calls;  // outlives every thread of the process
    return *calls;
  }

  CuResult enter(size_t index) {
    counts_[index].fetch_add(1, std::memory_order_relaxed);
    if (!armed_.load(std::memory_order_acquire)) return kSuccess;
    CuResult result = kSuccess;
    uint64_t delay_us = 0;
    {
      std::lock_guard guard(mutex_);
      for (Fault& fault : faults_) {
        if (!concerns(fault.name, kRows[index])) continue;
        fault.seen += 1;
        const bool hit = fault.all_later ? fault.seen >= fault.first : fault.seen == fault.first;
        if (hit && result == kSuccess) result = fault.code;
      }
      for (const Delay& delay : delays_) {
        if (concerns(delay.name, kRows[index])) delay_us += delay.duration_us;
      }
    }
    pause_for(delay_us);
    return result;
  }

  bool set_faults(std::string_view text) {
    auto faults = parse_list<Fault>(text, parse_fault);
    if (!faults) return false;
    std::lock_guard guard(mutex_);
    faults_ = std::move(*faults);
    armed_ = !faults_.empty() || !delays_.empty();
    return true;
  }

  bool environment_understood() const { return environment_understood_; }

  long long count(std::string_view name) const {
    if (!known_name(name)) return -1;
    uint64_t sum = 0;
    for (size_t i = 0; i < kRowCount; ++i) {
      if (concerns(name, kRows[i])) sum += counts_[i].load(std::memory_order_relaxed);
    }
    return static_cast<long long>(sum);
  }

  void reset() {
    std::lock_guard guard(mutex_);
    faults_.clear();
    delays_.clear();
    armed_ = false;
    for (auto& count : counts_) count = 0;
  }

 private:
  Calls() {
    const std::string delays = initial_delays();
    auto parsed = parse_list<Delay>(delays, parse_delay);
    environment_understood_ = set_faults(initial_faults()) && parsed.has_value();
    if (parsed) delays_ = std::move(*parsed);
    armed_ = !faults_.empty() || !delays_.empty();
  }

  static void pause_for(uint64_t duration_us) {
    if (duration_us == 0) return;
    const timespec duration{static_cast<time_t>(duration_us / 1'000'000),
                            static_cast<long>(duration_us % 1'000'000 * 1000)};
    nanosleep(&duration, nullptr);
  }

  std::array<std::atomic<uint64_t>, kRowCount> counts_{};
  std::atomic<bool> armed_{false};
  bool environment_understood_ = false;
  std::mutex mutex_;
  std::vector<Fault> faults_;
  std::vector<Delay> delays_;
};

}  // namespace

FunctionKind function_kind(Function function) { return kRows[static_cast<size_t>(function)].kind; }

bool fault_environment_understood() { return Calls::instance().environment_understood(); }

CuResult count_call(Function function) {
  return Calls::instance().enter(static_cast<size_t>(function));
}

}  // namespace amem::sim

AMEM_SIM_API int amemSimSetFault(const char* faults) {
  return amem::sim::Calls::instance().set_faults(faults == nullptr ? "" : faults) ? 0 : 1;
}

AMEM_SIM_API long long amemSimCallCount(const char* name) {
  return name == nullptr ? -1 : amem::sim::Calls::instance().count(name);
}

AMEM_SIM_API void amemSimSetLeftover(unsigned word) { amem::sim::set_leftover(word); }

AMEM_SIM_API void amemSimReset(void) {
  amem::sim::Calls::instance().reset();
  amem::sim::set_leftover(0);
}
