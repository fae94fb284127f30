// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "engine/statistics.h"

#include <algorithm>
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <set>

namespace amem {
namespace {

[[gnu::format(printf, 1, 2)]] std::string line(const char* format, ...) {
  char text[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return text;
}

const char* kind_name(Kind kind) {
  constexpr const char* kNames[] = {"keep", "discard", "persistent", "disk", "zero", "retain"};
  return kNames[static_cast<int>(kind)];
}

Caller caller_of(const Allocation& allocation) {
  if (allocation.is_import) return Caller::imported_memory;
  if (allocation.is_application_own) return Caller::user_memory;
  return allocation.nonce != 0 ? Caller::shared_memory : Caller::private_memory;
}

/// The bytes of the allocation that are saved.
size_t kept_bytes(const Allocation& allocation, const Backing& backing) {
  const size_t end = allocation.offset_bytes + allocation.size_bytes;
  size_t sum = 0;
  for (const Piece& piece : backing.saved_pieces) {
    const size_t from = std::max(allocation.offset_bytes, piece.offset_bytes);
    const size_t to = std::min(end, piece.offset_bytes + piece.size_bytes);
    if (from < to) sum += to - from;
  }
  return sum;
}

void add(const amemTotals_t& other, amemTotals_t* sum) {
  sum->objects += other.objects;
  sum->allocated_bytes += other.allocated_bytes;
  sum->resident_bytes += other.resident_bytes;
  sum->released_bytes += other.released_bytes;
  sum->saved_bytes += other.saved_bytes;
  sum->fixed_bytes += other.fixed_bytes;
  sum->disk_bytes += other.disk_bytes;
}

amemTotals_t totals_of(const Allocation& allocation, const Backing& backing) {
  amemTotals_t totals{};
  totals.objects = 1;
  totals.allocated_bytes = allocation.size_bytes;
  (backing.is_here() ? totals.resident_bytes : totals.released_bytes) = allocation.size_bytes;
  if (!backing.is_here() && backing.saved != nullptr)
    (backing.saved_file.file != nullptr ? totals.disk_bytes : totals.saved_bytes) =
        kept_bytes(allocation, backing);
  return totals;
}

std::map<std::string, size_t> by_reason(const Statistics& statistics) {
  std::map<std::string, size_t> sums;
  for (const auto& [key, bytes] : statistics.persistent) sums[key.second] += bytes;
  return sums;
}

/// The state of all tags; "mixed" if they differ.
std::string common_state(const std::map<Tag, std::string>& states) {
  std::set<std::string> all;
  for (const auto& [tag, state] : states) all.insert(state);
  return all.empty() ? "active" : all.size() > 1 ? "mixed" : *all.begin();
}

void append(std::string& list, const std::string& item) {
  list += (list.empty() ? "" : ", ") + item;
}

// Numbers with an exponent, because printf() writes the decimal point of the program's locale.

std::string counters_json(const SessionCounters& counters) {
  return line("\"pauses\": %" PRIu64 ", \"resumes\": %" PRIu64 ", \"failed_pauses\": %" PRIu64
              ", \"failed_resumes\": %" PRIu64 ", \"copied_bytes\": %" PRIu64
              ", \"last_pause_seconds\": %.0fe-6, \"last_resume_seconds\": %.0fe-6, "
              "\"last_pause_bytes\": %zu, \"last_resume_bytes\": %zu, \"last_pause_time\": %" PRId64
              ", \"last_resume_time\": %" PRId64 ", \"last_error_time\": %" PRId64,
              counters.pauses, counters.resumes, counters.failed_pauses, counters.failed_resumes,
              counters.copied_bytes, counters.last_pause.total_ms * 1e3,
              counters.last_resume.total_ms * 1e3, counters.last_pause.moved_bytes,
              counters.last_resume.moved_bytes, counters.last_pause.end_time_s,
              counters.last_resume.end_time_s, counters.last_error_time_s) +
         ", \"last_error\": \"" + text_json(counters.last_error) + "\"";
}

std::string sizes_json(const amemTotals_t& totals) {
  return line(
      "\"allocated_bytes\": %zu, \"resident_bytes\": %zu, \"released_bytes\": %zu, "
      "\"saved_bytes\": %zu, \"fixed_bytes\": %zu, \"disk_bytes\": %zu",
      totals.allocated_bytes, totals.resident_bytes, totals.released_bytes, totals.saved_bytes,
      totals.fixed_bytes, totals.disk_bytes);
}

std::string totals_json(const amemTotals_t& totals) {
  return line("\"objects\": %zu, ", totals.objects) + sizes_json(totals);
}

std::string times_json(const SessionReport& pause, const SessionReport& resume) {
  return line(
      "\"pause_ms\": %.0fe-6, \"pause_wait_ms\": %.0fe-6, \"pause_peers_ms\": %.0fe-6, "
      "\"pause_copy_ms\": %.0fe-6, \"pause_memory_ms\": %.0fe-6, \"resume_ms\": %.0fe-6, "
      "\"resume_memory_ms\": %.0fe-6, \"resume_copy_ms\": %.0fe-6, \"resume_peers_ms\": %.0fe-6, "
      "\"pause_copied_bytes\": %zu, \"resume_copied_bytes\": %zu, \"pause_context_bytes\": %zu, "
      "\"pause_unchanged_bytes\": %zu",
      pause.total_ms * 1e6, pause.wait_ms * 1e6, pause.peers_ms * 1e6, pause.move.copy_ms * 1e6,
      pause.move.memory_ms * 1e6, resume.total_ms * 1e6, resume.move.memory_ms * 1e6,
      resume.move.copy_ms * 1e6, resume.peers_ms * 1e6, pause.move.copied_bytes,
      resume.move.copied_bytes, pause.context_bytes, pause.move.unchanged_bytes);
}

/// The members that only amemGetStatus() has.
std::string details_json(const Statistics& statistics, const ProcessFacts& facts) {
  std::string own;
  for (const auto& [key, totals] : statistics.own)
    append(own, line("{\"tag\": \"%s\", \"device\": %d, \"kind\": \"%s\", ", key.tag.c_str(),
                     key.device, kind_name(key.kind)) +
                    totals_json(totals) + "}");
  const amemDriverObjects_t& objects = statistics.driver_objects;
  return ", \"own\": [" + own + "], \"imports\": {" + totals_json(statistics.imports) +
         line("}, \"driver\": {\"own\": %zu, \"own_bytes\": %zu, \"imported\": %zu}, ", objects.own,
              objects.own_bytes, objects.imported) +
         line("\"times\": {\"host_capacity_bytes\": %zu, ", *facts.host_capacity_bytes) +
         times_json(facts.counters.last_pause, facts.counters.last_resume) + "}";
}

}  // namespace

std::string text_json(std::string text) {
  constexpr size_t kMaxBytes = 500;
  text.resize(std::min(text.size(), kMaxBytes));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '"' || c == '\\' || c < ' ' || c > '~'; },
      ' ');
  return text;
}

Statistics take_statistics(Registry& registry) {
  Statistics statistics;
  MutexLock lock(registry.mutex);
  std::set<BackingId> persistent;
  for (const auto& [id, backing] : registry.backings()) {
    if (!backing.is_import && is_persistent(backing, registry.allocations())) persistent.insert(id);
    amemDriverObjects_t& objects = statistics.driver_objects;
    ++(backing.is_import ? objects.imported : objects.own);
    if (!backing.is_import) objects.own_bytes += backing.size_bytes;
  }
  for (const auto& [id, allocation] : registry.allocations()) {
    if (allocation.is_unreferenced()) continue;
    const Backing& backing = registry.backing_of(allocation);
    amemTotals_t totals = totals_of(allocation, backing);
    statistics.by_caller[caller_of(allocation)] += allocation.size_bytes;
    if (allocation.is_import) {
      add(totals, &statistics.imports);
      continue;
    }
    if (persistent.contains(backing.id)) {
      totals.fixed_bytes = allocation.size_bytes;
      const char* because = allocation.persistent_because;
      if (because == nullptr)
        because =
            allocation.registering > 0 ? "being registered" : "in a slab with persistent memory";
      statistics.persistent[{backing.tag, because}] += allocation.size_bytes;
    }
    add(totals, &statistics.own[{backing.tag, allocation.device(), allocation.kind}]);
  }
  return statistics;
}

std::vector<std::string> format_statistics(const Statistics& statistics, long group, int pid) {
  std::vector<std::string> lines;
  const auto add = [&, head = line("AMEM groupID:%ld pid:%d ", group, pid)](
                       const std::string& rest) { lines.push_back(head + rest); };
  size_t total = 0;
  for (const auto& [caller, bytes] : statistics.by_caller) {
    add(line("caller_%d allocBytes:%zu", static_cast<int>(caller), bytes));
    total += bytes;
  }
  add(line("total allocBytes:%zu (%zu MiB)", total, total >> 20));
  for (const auto& [key, totals] : statistics.own)
    add(
        line("device:%d tag:%s kind:%s objects:%zu residentBytes:%zu releasedBytes:%zu "
             "savedOnHostBytes:%zu savedOnDiskBytes:%zu",
             key.device, key.tag.c_str(), kind_name(key.kind), totals.objects,
             totals.resident_bytes, totals.released_bytes, totals.saved_bytes, totals.disk_bytes));
  const amemTotals_t& imports = statistics.imports;
  if (imports.objects > 0)
    add(line("imported objects:%zu mappedBytes:%zu unmappedBytes:%zu", imports.objects,
             imports.resident_bytes, imports.released_bytes));
  const amemDriverObjects_t& objects = statistics.driver_objects;
  if (objects.own + objects.imported > 0)
    add(line("driver objects:%zu bytes:%zu imported:%zu", objects.own, objects.own_bytes,
             objects.imported));
  for (const auto& [reason, bytes] : by_reason(statistics))
    add(line("neverReleasedBytes:%zu because:%s", bytes, reason.c_str()));
  return lines;
}

amemTotals_t sum_of(const Statistics& statistics, std::optional<std::string_view> tag,
                    std::optional<int> device, std::optional<Kind> kind) {
  amemTotals_t sum{};
  for (const auto& [key, totals] : statistics.own)
    if ((!tag || key.tag == *tag) && (!device || key.device == *device) &&
        (!kind || key.kind == *kind))
      add(totals, &sum);
  return sum;
}

std::string statistics_json(const Statistics& statistics, const ProcessFacts& facts) {
  const amemTotals_t own = sum_of(statistics, {}, {}, {});
  std::string tags, memory, persistent;
  for (const auto& [tag, state] : facts.states)
    append(tags, line("\"%s\": {\"state\": \"%s\", ", tag.c_str(), state.c_str()) +
                     sizes_json(sum_of(statistics, tag, {}, {})) +
                     (facts.awaited.contains(tag)
                          ? ", \"waits_for\": \"" + text_json(facts.awaited.at(tag)) + "\"}"
                          : "}"));
  std::map<std::pair<int, Tag>, amemTotals_t> by_device;
  for (const auto& [key, totals] : statistics.own) add(totals, &by_device[{key.device, key.tag}]);
  for (const auto& [key, totals] : by_device)
    append(memory, line("{\"gpu\": \"%s\", \"tag\": \"%s\", ", facts.gpu_of(key.first).c_str(),
                        key.second.c_str()) +
                       sizes_json(totals) + "}");
  for (const auto& [reason, bytes] : by_reason(statistics))
    append(persistent, line("\"%s\": %zu", text_json(reason).c_str(), bytes));
  return line("{\"pid\": %d, \"group\": %ld, \"group_name\": \"%s\", \"state\": \"%s\", ",
              facts.pid, facts.group, facts.group_name.c_str(),
              common_state(facts.states).c_str()) +
         totals_json(own) +
         line(
             ", \"imported_objects\": %zu, \"imported_bytes\": %zu, \"driver_objects\": %zu, "
             "\"driver_bytes\": %zu, \"context_bytes\": %zu, \"host_used_bytes\": %zu, "
             "\"host_borrowed_bytes\": %zu, \"host_idle_bytes\": %zu, ",
             statistics.imports.objects, statistics.imports.allocated_bytes,
             statistics.driver_objects.own + statistics.driver_objects.imported,
             statistics.driver_objects.own_bytes, facts.context_bytes, facts.host.held_bytes,
             facts.host.borrowed_bytes, facts.host.idle_bytes) +
         "\"counters\": {" + counters_json(facts.counters) + "}, \"tags\": {" + tags +
         "}, \"memory\": [" + memory + "], \"persistent\": {" + persistent +
         "}, \"remote\": " + facts.remote_json +
         (facts.host_capacity_bytes ? details_json(statistics, facts) : "") + "}";
}

std::string text_of_persistent(Registry& registry, const Tags& tags) {
  std::string reasons;
  size_t bytes = 0;
  for (const auto& [key, size_bytes] : take_statistics(registry).persistent) {
    const auto& [tag, reason] = key;
    if (!tags.contains(tag)) continue;
    bytes += size_bytes;
    if (reasons.find(reason) == reasons.npos) reasons += (reasons.empty() ? "" : ", ") + reason;
  }
  if (bytes == 0) return {};
  return ", " + std::to_string(bytes >> 20) + " MiB stay on the GPU (" + reasons + ")";
}

}  // namespace amem
