// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "cli/status_report.h"

#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>

#include "cli/text_table.h"

namespace amem {
namespace {

using Json = nlohmann::ordered_json;

// The fields of statistics_json() in src/engine/statistics.cc.
constexpr const char* kSizes[] = {"resident_bytes", "released_bytes", "saved_bytes",
                                  "imported_bytes"};

struct Sorted {
  std::vector<Json> answered;
  std::vector<ProcessStatus> silent;
};

bool is_complete(const Json& reply) {
  for (const char* size : kSizes)
    if (!reply.contains(size) || !reply[size].is_number()) return false;
  return reply.contains("group") && reply["group"].is_number_integer() && reply.contains("state") &&
         reply["state"].is_string();
}

/// A reply that cannot be parsed counts as no reply.
Sorted sorted(const std::vector<ProcessStatus>& processes) {
  Sorted out;
  for (const ProcessStatus& process : processes) {
    if (!process.silence.empty()) {
      out.silent.push_back(process);
      continue;
    }
    Json reply = Json::parse(process.json, nullptr, false);
    if (!reply.is_object() || !is_complete(reply)) {
      out.silent.push_back(
          {process.pid, "", "its reply cannot be parsed: it may be another version of amem"});
      continue;
    }
    // The pid from the kernel: a process in a container reports a different one.
    if (process.pid != 0) reply["pid"] = process.pid;
    out.answered.push_back(std::move(reply));
  }
  return out;
}

}  // namespace

std::string human_bytes(double bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  // 1023.95 would be printed as 1024.0.
  while (bytes >= 1023.95 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.1f} {}", bytes, kUnits[unit]);
}

std::string status_table(const std::vector<ProcessStatus>& processes) {
  const Sorted all = sorted(processes);
  if (processes.empty()) return "no process of this user on this host runs amem\n";
  std::string out;
  TextTable table({"pid", "group", "state", "resident", "released", "saved", "imported"});
  for (const Json& reply : all.answered) {
    std::vector<std::string> cells = {reply.contains("pid") ? reply["pid"].dump() : "?",
                                      reply["group"].dump(), reply["state"].get<std::string>()};
    for (const char* size : kSizes) cells.push_back(human_bytes(reply[size].get<double>()));
    table.add(std::move(cells));
  }
  if (!all.answered.empty()) out += table.text();
  for (const ProcessStatus& process : all.silent)
    out += fmt::format("pid {} did not answer: {}\n",
                       process.pid != 0 ? std::to_string(process.pid) : "?", process.silence);
  return out;
}

std::string status_json(const std::vector<ProcessStatus>& processes) {
  const Sorted all = sorted(processes);
  Json silent = Json::array();
  for (const ProcessStatus& process : all.silent)
    silent.push_back({{"pid", process.pid}, {"reason", process.silence}});
  const Json out = {{"processes", Json(all.answered)}, {"silent", silent}};
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace amem
