// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "cli/status_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/terminal.h"
#include "cli/text_table.h"
#include "driver/nvml.h"

namespace amem {
namespace {

using Json = nlohmann::json;  // finds keys in logarithmic time

/// A column of the table: its title, and the field of statistics_json() in
/// src/engine/statistics.cc.
struct Size {
  const char* title;
  const char* field;
};
constexpr Size kSizes[] = {{"resident", "resident_bytes"},
                           {"released", "released_bytes"},
                           {"on host", "saved_bytes"},
                           {"on disk", "disk_bytes"},
                           {"persistent", "fixed_bytes"}};
constexpr size_t kMaxCommand = 60;
constexpr size_t kStateColumn = 5;

/// The words of a file of /proc that ends each with a zero.
std::vector<std::string> words_of(long pid, const char* file) {
  std::ifstream stream(fmt::format("/proc/{}/{}", pid, file));
  std::vector<std::string> words;
  for (std::string word; std::getline(stream, word, '\0');) words.push_back(word);
  return words;
}

/// What NVML reports of the GPUs on which the processes have memory, by UUID.
using Gpus = std::map<std::string, GpuReport>;

/// As nvidia-smi counts; otherwise the beginning of the UUID.
std::string gpu_name(const Gpus& gpus, const std::string& uuid) {
  const auto gpu = gpus.find(uuid);
  return gpu != gpus.end() && gpu->second.index ? std::to_string(*gpu->second.index)
                                                : uuid.substr(0, strlen("GPU-12345678"));
}

Json json_of(const Gpus& gpus) {
  Json out = Json::array();
  for (const auto& [uuid, gpu] : gpus) {
    if (!gpu.memory) continue;
    Json holders = Json::array();
    for (const MemoryHolder& holder : gpu.holders)
      if (holder.size_bytes)
        holders.push_back({{"pid", holder.pid}, {"bytes", *holder.size_bytes}});
    out.push_back({{"gpu", uuid},
                   {"name", gpu_name(gpus, uuid)},
                   {"model", gpu.model},
                   {"total_bytes", gpu.memory->total_bytes},
                   {"used_bytes", gpu.memory->used_bytes},
                   {"processes", holders}});
  }
  return out;
}

/// The rows of one process, by GPU and tag. A process without memory has one. `for_people`: sizes
/// have a unit, and GPUs the numbers of nvidia-smi.
TableRows rows_of(const Json& reply, bool for_people, const Gpus& gpus) {
  const std::string pid = reply.contains("pid") ? reply.at("pid").dump() : "?";
  const auto row = [&](const std::string& gpu, const std::string& tag) {
    const auto& tags = reply.at("tags").get_ref<const Json::object_t&>();
    const auto found = tags.find(tag);
    const std::string state = (found != tags.end() ? found->second : reply).value("state", "?");
    const std::string name = reply.value("group_name", "");
    const std::string group = name.empty() ? reply.at("group").dump() : name;
    const std::string rank = reply["rank"];
    return std::vector<std::string>{gpu,   pid, !for_people && rank == "-" ? "" : rank,
                                    group, tag, state};
  };
  TableRows rows;
  for (const Json& memory : reply.at("memory")) {
    const std::string uuid = memory.at("gpu");
    rows.push_back(row(for_people ? gpu_name(gpus, uuid) : uuid, memory.at("tag")));
    for (const Size& size : kSizes) {
      const Json& bytes = memory.at(size.field);
      rows.back().push_back(for_people ? human_bytes(bytes.get<double>()) : bytes.dump());
    }
  }
  if (rows.empty()) {
    const char* const nothing = for_people ? "-" : "";
    rows.push_back(row(nothing, nothing));
    rows.back().resize(rows.back().size() + std::size(kSizes), nothing);
  }
  for (std::vector<std::string>& each : rows) each.push_back(reply["command"]);
  return rows;
}

/// What is not on its GPU stands out.
std::string styled(size_t column, const std::string& cell) {
  const bool stands_out =
      column == kStateColumn && !cell.starts_with("active") && !cell.starts_with("state");
  return stands_out ? colored(cell, Color::yellow) : cell;
}

/// By GPU, below the titles of the columns.
TableRows with_titles(TableRows rows, bool for_people) {
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.front() < b.front(); });
  std::vector<std::string> titles = {
      for_people ? "GPU" : "gpu", "pid", "rank", "group", "tag", "state"};
  for (const Size& size : kSizes) titles.emplace_back(for_people ? size.title : size.field);
  titles.emplace_back("command");
  rows.insert(rows.begin(), std::move(titles));
  return rows;
}

/// What the table has no column for.
std::string remarks_of(const Json& reply) {
  std::string out;
  for (const auto& [reason, bytes] : reply.at("persistent").get_ref<const Json::object_t&>())
    out += fmt::format("pid {}: {} never released: {}\n", reply.at("pid").dump(),
                       human_bytes(bytes.get<double>()), reason);
  if (const double bytes = reply.value("context_bytes", 0.0); bytes > 0)
    out += fmt::format("pid {}: {} of local memory of CUDA contexts returned\n",
                       reply.at("pid").dump(), human_bytes(bytes));
  if (const Json remote = reply.value("remote", Json::object());
      remote.value("state", "") == "paused") {
    const time_t since = remote.at("time").get<time_t>();
    char text[] = "2026-11-28T12:00:00Z";
    strftime(text, sizeof text, "%FT%TZ", gmtime(&since));
    out += fmt::format("pid {}: paused by amem pause (process {}) at {}: {}\n",
                       reply.at("pid").dump(), remote.at("pid").dump(), text,
                       fmt::join(remote.at("tags").get<std::vector<std::string>>(), ", "));
  }
  const double used = reply.value("host_used_bytes", 0.0),
               idle = reply.value("host_idle_bytes", 0.0);
  if (used + idle > 0)
    out += fmt::format("pid {}: host memory: {} in use, of which {} borrowed; {} idle\n",
                       reply.at("pid").dump(), human_bytes(used),
                       human_bytes(reply.value("host_borrowed_bytes", 0.0)), human_bytes(idle));
  return out;
}

/// Who owns the memory, `amem why` says.
std::string use_of(const Json& gpus) {
  std::string out;
  for (const Json& gpu : gpus)
    out += fmt::format("GPU {}: {} of {} in use\n", gpu.at("name").get<std::string>(),
                       human_bytes(gpu.at("used_bytes").get<double>()),
                       human_bytes(gpu.at("total_bytes").get<double>()));
  return out;
}

struct Report {
  std::vector<Json> answered;
  std::vector<Answer> silent;
  TableRows rows;
  std::string remarks;
  Gpus gpus;
};

/// A reply that lacks what the table shows counts as no reply.
Report read_replies(const std::vector<Answer>& processes, bool for_people) {
  Report out;
  for (const Answer& process : processes) {
    out.silent.push_back(process);
    if (!process.silence.empty()) continue;
    try {
      Json reply = Json::parse(process.json());
      // The pid from the kernel: a process in a container reports a different one.
      if (process.pid != 0) reply["pid"] = process.pid;
      reply["command"] = command_of(process.pid);
      // As its launcher has set it: torchrun, Open MPI, Slurm.
      const std::string rank =
          started_with(process.pid, {"RANK=", "OMPI_COMM_WORLD_RANK=", "SLURM_PROCID="});
      reply["rank"] = rank.empty() ? "-" : rank;
      for (const Json& memory : reply.at("memory"))
        if (const auto [gpu, is_new] = out.gpus.try_emplace(memory.at("gpu")); is_new)
          gpu->second = ask_nvml(gpu->first);
      const TableRows rows = rows_of(reply, for_people, out.gpus);
      out.remarks += remarks_of(reply);
      out.rows.insert(out.rows.end(), rows.begin(), rows.end());
      out.answered.push_back(std::move(reply));
      out.silent.pop_back();
    } catch (const Json::exception&) {
      out.silent.back().silence = kNotParsed;
    }
  }
  return out;
}

std::string table_of(const Report& all) {
  if (all.answered.empty() && all.silent.empty())
    return "no process of this user on this host runs amem\n";
  std::string out = all.rows.empty() ? "" : text_of_table(with_titles(all.rows, true), styled);
  out += all.remarks + use_of(json_of(all.gpus));
  for (const Answer& process : all.silent)
    out +=
        colored(fmt::format("pid {} did not answer: {}",
                            process.pid != 0 ? std::to_string(process.pid) : "?", process.silence),
                Color::red) +
        "\n";
  return out;
}

std::string csv_of(const Report& all) {
  std::string out;
  for (const std::vector<std::string>& row : with_titles(all.rows, false)) {
    std::string line;
    for (const std::string& cell : row) {
      line += line.empty() ? "\"" : ",\"";
      for (const char each : cell) line.append(each == '"' ? 2 : 1, each);
      line += '"';
    }
    out += line + "\n";
  }
  return out;
}

std::string json_of(Report all, bool in_one_line) {
  Json silent = Json::array();
  for (const Answer& process : all.silent)
    silent.push_back({{"pid", process.pid}, {"reason", process.silence}});
  constexpr int kSchema = 1;  // changes when a field changes its meaning or is removed
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  const Json out = {{"schema", kSchema},
                    {"time", now.count()},
                    {"gpus", json_of(all.gpus)},
                    {"processes", std::move(all.answered)},
                    {"silent", silent}};
  return out.dump(in_one_line ? -1 : 2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string started_with(long pid, std::initializer_list<const char*> names) {
  for (const std::string& word : words_of(pid, "environ"))
    for (const char* name : names)
      if (word.starts_with(name)) return word.substr(strlen(name));
  return "";
}

std::string command_of(long pid) {
  std::string command = fmt::format("{}", fmt::join(words_of(pid, "cmdline"), " "));
  std::replace_if(
      command.begin(), command.end(), [](char c) { return c < ' ' || c > '~'; }, ' ');
  return command.substr(0, kMaxCommand);
}

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

StatusText status_text(const std::vector<Answer>& processes, StatusFormat format) {
  using enum StatusFormat;
  Report all = read_replies(processes, format == table);
  const bool all_answered = all.silent.empty();
  std::string text = format == table ? table_of(all)
                     : format == csv ? csv_of(all)
                                     : json_of(std::move(all), format == json_line);
  return {std::move(text), all_answered};
}

}  // namespace amem
