// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "bench/report.h"

namespace bench {

namespace {

using nlohmann::json;

double mib(const json& bytes) { return bytes.get<double>() / (1 << 20); }

double most_mib(const json& ranks) { return mib(*std::max_element(ranks.begin(), ranks.end())); }

/// "0.109 (0.105-0.121)"
std::string spread(const json& summary) {
  if (summary.is_null()) return "-";
  return fmt::format("{:.3f} ({:.3f}-{:.3f})", summary["median"].get<double>(),
                     summary["min"].get<double>(), summary["max"].get<double>());
}

std::vector<json> those(const Report& report, const std::string& figures) {
  std::vector<json> found;
  for (const json& record : report.records())
    if (record["figures"] == figures) found.push_back(record);
  return found;
}

void print_pauses(const std::vector<json>& records) {
  if (records.empty()) return;
  fmt::print(
      "\nPause and resume with amem: seconds of the slowest rank, steady as median (min-max)\n\n");
  fmt::print("  {:>5} | {:>9} {:>10} | {:>21} {:>21} | {:>7}\n", "comms", "1st pause", "1st resume",
             "steady pause", "steady resume", "checked");
  for (const json& r : records)
    fmt::print("  {:>5} | {:>9.3f} {:>10.3f} | {:>21} {:>21} | {:>7}\n",
               r["communicators"].get<int>(), r["first_pause_s"].get<double>(),
               r["first_resume_s"].get<double>(), spread(r["steady_pause_s"]),
               spread(r["steady_resume_s"]), r["verified"].get<bool>() ? "ok" : "WRONG");

  fmt::print("\nWhat it moved, on the rank with the most, in MiB; objects of the driver\n\n");
  fmt::print("  {:>5} | {:>9} {:>8} {:>7} | {:>9} {:>9} | {:>8} | {:>6} {:>8}\n", "comms", "held",
             "freed", "freed %", "copied", "back", "host", "own", "imported");
  for (const json& r : records)
    fmt::print(
        "  {:>5} | {:>9.0f} {:>8.0f} {:>7.2f} | {:>9.1f} {:>9.1f} | {:>8.0f} | {:>6} {:>8}\n",
        r["communicators"].get<int>(), most_mib(r["driver_bytes"]), most_mib(r["freed_bytes"]),
        100 * r["freed_of_held"].get<double>(), mib(r["pause_copied_bytes"]),
        mib(r["resume_copied_bytes"]), mib(r["host_bytes"]), r["own_objects"].get<uint64_t>(),
        r["imported_objects"].get<uint64_t>());
}

void print_phases(const std::vector<json>& records) {
  if (records.empty()) return;
  fmt::print("\nPhases of the slowest rank in milliseconds, median of the steady cycles\n\n");
  fmt::print("  {:>5} | {:>8} {:>8} {:>8} {:>8} | {:>8} {:>8} {:>8} | {:>12}\n", "comms", "p.wait",
             "p.peers", "p.copy", "p.memory", "r.memory", "r.copy", "r.peers", "driver calls");
  for (const json& r : records) {
    const auto ms = [&](const char* phase) { return r["phases"][phase].get<double>(); };
    std::string calls = "-";
    if (r.contains("pause_driver_calls"))
      calls = fmt::format("{:.0f} + {:.0f}", r["pause_driver_calls"]["median"].get<double>(),
                          r["resume_driver_calls"]["median"].get<double>());
    fmt::print(
        "  {:>5} | {:>8.1f} {:>8.1f} {:>8.1f} {:>8.1f} | {:>8.1f} {:>8.1f} {:>8.1f} | {:>12}\n",
        r["communicators"].get<int>(), ms("pause_wait_ms"), ms("pause_peers_ms"),
        ms("pause_copy_ms"), ms("pause_memory_ms"), ms("resume_memory_ms"), ms("resume_copy_ms"),
        ms("resume_peers_ms"), calls);
  }
}

/// By communicators, then by contender.
std::map<int, std::map<std::string, json>> by_communicators(const std::vector<json>& records) {
  std::map<int, std::map<std::string, json>> found;
  for (const json& record : records)
    found[record["communicators"].get<int>()][record["contender"].get<std::string>()] = record;
  return found;
}

void print_setups(const std::vector<json>& records) {
  if (records.empty()) return;
  fmt::print(
      "\nMaking and connecting the communicators, and what a GPU's memory in use grew by; the "
      "share "
      "is amem's of plain NCCL's\n\n");
  fmt::print("  {:>5} | {:^35} | {:^35}\n", "", "seconds (median)", "MiB");
  fmt::print("  {:>5} |{:>9} {:>10} {:>8} {:>7} |{:>9} {:>10} {:>8} {:>7}\n", "comms", "amem",
             "forwarding", "plain", "share", "amem", "forwarding", "plain", "share");
  for (const auto& [communicators, rows] : by_communicators(records)) {
    const auto seconds = [&, &rows = rows](const char* contender) {
      return rows.at(contender)["setup_s"]["median"].get<double>();
    };
    const auto memory = [&, &rows = rows](const char* contender) {
      return most_mib(rows.at(contender)["memory_bytes"]);
    };
    fmt::print(
        "  {:>5} |{:>9.3f} {:>10.3f} {:>8.3f} {:>7.3f} |{:>9.0f} {:>10.0f} {:>8.0f} {:>7.3f}\n",
        communicators, seconds("amem"), seconds("forwarding"), seconds("plain"),
        seconds("amem") / seconds("plain"), memory("amem"), memory("forwarding"), memory("plain"),
        memory("amem") / memory("plain"));
  }
}

/// The contender, and its NCCL where that is another one than the rest's.
std::string name_with_nccl(const json& record) {
  const std::string name = record["contender"];
  return record.contains("nccl") ? name + " " + record["nccl"].get<std::string>() : name;
}

/// Of a contender that was not measured: why. False for one that was.
bool print_note(const json& record, const std::string& name) {
  if (!record.contains("note")) return false;
  fmt::print("  {:>5} | {:<15} | {}\n", record["communicators"].get<int>(), name,
             record["note"].get<std::string>());
  return true;
}

void print_rivals(const std::vector<json>& records) {
  if (records.empty()) return;
  fmt::print("\nRivals: destroy and recreate; NCCL's own suspend and resume. Seconds\n\n");
  fmt::print("  {:>5} | {:<15} | {:>9} {:>10} | {:>21} {:>21} | {:>9} | {:>7}\n", "comms", "",
             "1st pause", "1st resume", "steady pause", "steady resume", "freed MiB", "checked");
  for (const json& r : records) {
    const std::string name = name_with_nccl(r);
    if (print_note(r, name)) continue;
    fmt::print("  {:>5} | {:<15} | {:>9.3f} {:>10.3f} | {:>21} {:>21} | {:>9.0f} | {:>7}\n",
               r["communicators"].get<int>(), name, r["first_pause_s"].get<double>(),
               r["first_resume_s"].get<double>(), spread(r["steady_pause_s"]),
               spread(r["steady_resume_s"]), most_mib(r["freed_bytes"]),
               r["verified"].get<bool>() ? "ok" : "WRONG");
  }
}

void print_bystanders(const std::vector<json>& records) {
  if (records.empty()) return;
  fmt::print(
      "\nRanks that go on while their neighbours pause: milliseconds between two rounds, median "
      "and "
      "most of the cycles\n\n");
  fmt::print("  {:>5} | {:>10} | {:<6} | {:>8} {:>7} | {:>9} | {:>9} {:>9} | {:>9} {:>9}\n",
             "comms", "bystanders", "phase", "lasts", "rounds", "typical", "longest", "most",
             "added", "most");
  for (const json& r : records) {
    for (const char* name : {"before", "pause", "away", "resume"}) {
      const json& phase = r["phases"][name];
      const auto of = [&](const char* key, const char* value) {
        return phase[key][value].get<double>();
      };
      fmt::print(
          "  {:>5} | {:>10} | {:<6} | {:>8.1f} {:>7} | {:>9.3f} | {:>9.3f} {:>9.3f} | {:>9.3f} "
          "{:>9.3f}\n",
          r["communicators"].get<int>(), r["bystanders"].get<int>(), name,
          1e3 * of("seconds", "median"), phase["rounds"].get<long>(), of("round_ms", "median"),
          of("longest_gap_ms", "median"), of("longest_gap_ms", "max"), of("added_ms", "median"),
          of("added_ms", "max"));
    }
    fmt::print("  {} of {} ranks pause; a round: {}; results {}\n", r["pausing"].get<int>(),
               r["pausing"].get<int>() + r["bystanders"].get<int>(), r["work"].get<std::string>(),
               r["verified"].get<bool>() ? "ok" : "WRONG");
  }
}

/// What was in use when the last event of this name ended.
double mib_at_end(const json& timeline, const std::string& event) {
  double end_s = 0, bytes = 0;
  for (const json& each : timeline["events"])
    if (each["name"] == event) end_s = each["end_s"];
  for (const json& sample : timeline["samples"])
    if (sample[0].get<double>() <= end_s) bytes = sample[1];
  return bytes / (1 << 20);
}

void print_timelines(const std::vector<json>& records) {
  if (records.empty()) return;
  fmt::print(
      "\nMemory in use on GPU 0 by the whole job, at the end of work and of the pause, in MiB\n\n");
  fmt::print("  {:>5} | {:<15} | {:>9} {:>9} | {:>8} | {:>7}\n", "comms", "", "working", "paused",
             "samples", "checked");
  for (const json& r : records) {
    const std::string name = name_with_nccl(r);
    if (print_note(r, name)) continue;
    fmt::print("  {:>5} | {:<15} | {:>9.0f} {:>9.0f} | {:>8} | {:>7}\n",
               r["communicators"].get<int>(), name, mib_at_end(r, "work"), mib_at_end(r, "away"),
               r["samples"].size(), r["verified"].get<bool>() ? "ok" : "WRONG");
  }
}

void print_bandwidth(const std::vector<json>& records) {
  for (const json& r : records) {
    fmt::print("\n{}: GB/s (bytes over time), and the share of plain NCCL's\n\n",
               r["collective"].get<std::string>());
    fmt::print("  {:>10} | {:>9} | {:>10} {:>6} | {:>9} {:>6} {:>13}\n", "bytes", "plain",
               "forwarding", "share", "amem", "share", "(min-max)");
    for (const json& row : r["sizes"]) {
      const json &plain = row["plain"], &forwarding = row["forwarding"], &amem = row["amem"];
      fmt::print("  {:>10} | {:>9.4f} | {:>10.4f} {:>6.3f} | {:>9.4f} {:>6.3f} ({:.3f}-{:.3f})\n",
                 row["bytes"].get<size_t>(), plain["gb_per_s"].get<double>(),
                 forwarding["gb_per_s"].get<double>(),
                 forwarding["of_plain"]["median"].get<double>(), amem["gb_per_s"].get<double>(),
                 amem["of_plain"]["median"].get<double>(), amem["of_plain"]["min"].get<double>(),
                 amem["of_plain"]["max"].get<double>());
    }
    for (const char* who : {"amem", "forwarding"}) {
      const json& all = r[std::string(who) + "_of_plain"];
      fmt::print("  {} of plain over all sizes: geometric mean {:.4f}, least {:.4f}\n", who,
                 all["geometric_mean"].get<double>(), all["min"].get<double>());
    }
    if (!r.contains("empty_call_ns")) continue;
    fmt::print("  a call that launches nothing, in ns:");
    for (const char* who : {"plain", "forwarding", "amem"})
      fmt::print(" {} {:.0f}", who, r["empty_call_ns"][who]["median"].get<double>());
    fmt::print("\n");
  }
}

void print_calls(const std::vector<json>& records) {
  for (const json& r : records) {
    fmt::print(
        "\n{} through amem against NCCL's own functions, in turns: ns of one, and the share of "
        "their "
        "rate or latency\n\n",
        r["collective"].get<std::string>());
    fmt::print("  {:>10} | {:>29} | {:>29} | {:>29}\n  {:>10}", "", "queued (quartiles)",
               "grouped (quartiles)", "waited for (quartiles)", "bytes");
    for (int i = 0; i < 3; ++i) fmt::print(" | {:>8} {:>6} {:>13}", "ns", "share", "");
    fmt::print("\n");
    for (const json& row : r["sizes"]) {
      fmt::print("  {:>10}", row["bytes"].get<size_t>());
      for (const char* how : {"queued", "grouped", "waited"}) {
        const json& share = row[how]["of_direct"];
        fmt::print(" | {:>8.0f} {:>6.4f} {:.3f} - {:.3f}",
                   row[how]["amem_ns"]["median"].get<double>(), share["median"].get<double>(),
                   share["lower_quartile"].get<double>(), share["upper_quartile"].get<double>());
      }
      fmt::print("\n");
    }
    if (!r.contains("empty")) continue;
    fmt::print("  a call that launches nothing: {:.0f} ns past amem, {:.1f} ns more through it\n",
               r["empty"]["direct_ns"]["median"].get<double>(),
               r["empty"]["added_ns"]["median"].get<double>());
  }
}

}  // namespace

void print_tables(const Report& report) {
  const json& facts = report.facts();
  fmt::print("{} x {}, driver {}, NCCL {}, {}\n", facts["gpus"].get<int>(),
             facts["gpu"].get<std::string>(), facts["driver"].get<std::string>(),
             facts["nccl"].get<std::string>(), facts["date"].get<std::string>());
  const std::vector<json> pauses = those(report, "pause");
  print_pauses(pauses);
  print_phases(pauses);
  print_setups(those(report, "setup"));
  print_rivals(those(report, "rival"));
  print_bystanders(those(report, "bystander"));
  print_timelines(those(report, "timeline"));
  print_bandwidth(those(report, "bandwidth"));
  print_calls(those(report, "calls"));
}

}  // namespace bench
