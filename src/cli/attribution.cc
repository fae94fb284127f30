// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "cli/attribution.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/failure.h"
#include "cli/process_status.h"
#include "cli/status_report.h"
#include "driver/nvml.h"

namespace amem {
namespace {

using Json = nlohmann::json;

constexpr long kAttributionMs = 5000;

/// Of a reply, whose process may be another version of amem, or hostile.
size_t number_of(const Json& reply, const char* name) {
  return reply.at(name).get_ref<const Json::number_unsigned_t&>();
}
Json owner_of(const Json& reply) {
  Json owner = {{"owner", reply.at("owner").get<std::string>()},
                {"bytes", number_of(reply, "bytes")}};
  for (const char* name : {"remedy", "largest_at"})
    if (reply.contains(name)) owner[name] = reply[name].get<std::string>();
  for (const char* name : {"allocations", "largest_bytes"})
    if (owner.contains("largest_at")) owner[name] = number_of(reply, name);
  return owner;
}

/// The GPUs, by UUID, with those of one more process.
std::map<std::string, Json> with_reply(std::map<std::string, Json> gpus, long pid,
                                       const Json& reply) {
  for (const Json& gpu : reply.at("gpus")) {
    const std::string uuid = gpu.at("gpu");
    Json& all = gpus[uuid];
    all["gpu"] = uuid;
    for (const char* name : {"total_bytes", "used_bytes"})
      if (gpu.contains(name)) all[name] = number_of(gpu, name);
    Json process = {{"pid", pid},
                    {"command", command_of(pid)},
                    {"names_libraries", reply.at("names_libraries").get<bool>()},
                    {"busy", gpu.value("busy", false)},
                    {"owners", Json::array()},
                    {"attributed_bytes", size_t{0}}};
    for (const Json& owner : gpu.at("owners")) {
      process["owners"].push_back(owner_of(owner));
      process["attributed_bytes"] =
          number_of(process, "attributed_bytes") + number_of(owner, "bytes");
    }
    all["processes"].push_back(process);
  }
  return gpus;
}

/// Adds what NVML reports: of the GPU, of each process, and of processes without amem. What has no
/// owner is of a process if NVML reports how much that has, and otherwise of the GPU.
void add_nvml(const std::string& uuid, Json& gpu) {
  const GpuReport report = ask_nvml(uuid);
  gpu["model"] = report.model;
  if (report.index) gpu["index"] = *report.index;
  if (report.memory) {
    gpu["used_bytes"] = report.memory->used_bytes;
    gpu["total_bytes"] = report.memory->total_bytes;
  }
  std::map<long, size_t> others;
  for (const MemoryHolder& holder : report.holders)
    if (holder.size_bytes) others[holder.pid] = *holder.size_bytes;
  // In a container NVML may name the processes as the host does.
  for (const Json& process : gpu["processes"])
    if (!others.contains(process.at("pid").get<long>())) others.clear();
  size_t known = 0;
  for (Json& process : gpu["processes"]) {
    const size_t owned = number_of(process, "attributed_bytes");
    const auto held = others.find(process.at("pid").get<long>());
    known += held != others.end() ? held->second : owned;
    if (held == others.end()) continue;
    process["bytes"] = held->second;
    process["not_attributed_bytes"] = held->second - std::min(held->second, owned);
    others.erase(held);
  }
  gpu["others"] = Json::array();
  for (const auto& [pid, bytes] : others) {
    gpu["others"].push_back({{"pid", pid}, {"bytes", bytes}});
    known += bytes;
  }
  if (!gpu.contains("used_bytes")) return;
  const size_t used = number_of(gpu, "used_bytes");
  gpu["not_attributed_bytes"] = used - std::min(used, known);
}

std::string size_line(const Json& bytes, const std::string& text) {
  return fmt::format("{:>13}  {}\n", human_bytes(bytes.get<double>()), text);
}

bool names_context(const Json& process) {
  const Json& owners = process.at("owners");
  return std::any_of(owners.begin(), owners.end(),
                     [](const Json& owner) { return owner.at("owner") == "CUDA context"; });
}

/// What has no owner in these processes.
std::string rest_line(const Json& bytes, const std::vector<Json>& processes,
                      const char* more = "") {
  const bool has_contexts = std::all_of(processes.begin(), processes.end(), names_context);
  const bool has_libraries =
      std::all_of(processes.begin(), processes.end(),
                  [](const Json& process) { return process.at("names_libraries") == true; });
  return size_line(
      bytes, fmt::format("not attributed: {}kernels, rounding to pages{}{}",
                         has_contexts ? "" : "CUDA contexts, ",
                         has_libraries ? "" : ", libraries (AMEM_ATTRIBUTION=1 names them)", more));
}

std::string text_of_process(const Json& process) {
  std::string text = fmt::format("pid {}: {}\n", process.at("pid").dump(),
                                 process.at("command").get<std::string>());
  std::vector<Json> owners = process.at("owners");
  std::stable_sort(owners.begin(), owners.end(), [](const Json& a, const Json& b) {
    return a.at("bytes").get<size_t>() > b.at("bytes").get<size_t>();
  });
  for (const Json& owner : owners) {
    std::string name = owner.at("owner");
    if (owner.contains("allocations"))
      name += fmt::format(", {} allocation{}, the largest was {} at {}",
                          owner.at("allocations").dump(), owner.at("allocations") == 1 ? "" : "s",
                          human_bytes(owner.at("largest_bytes").get<double>()),
                          owner.at("largest_at").get<std::string>());
    text += size_line(owner.at("bytes"), name);
    if (owner.contains("remedy"))
      text += fmt::format("{:15}-> {}\n", "", owner.at("remedy").get<std::string>());
  }
  if (process.at("busy") == true)
    text +=
        fmt::format("{:15}the GPU is busy: stacks of kernels and memory pools are missing\n", "");
  if (process.contains("not_attributed_bytes"))
    text += rest_line(process.at("not_attributed_bytes"), {process});
  return text;
}

std::string text_of_gpu(const Json& gpu) {
  std::string text = fmt::format(
      "GPU {}{}\n",
      gpu.contains("index") ? gpu.at("index").dump() : gpu.at("gpu").get<std::string>(),
      gpu.contains("used_bytes")
          ? fmt::format(": {} of {} in use", human_bytes(gpu.at("used_bytes").get<double>()),
                        human_bytes(gpu.value("total_bytes", 0.0)))
          : "");
  bool has_rest = gpu.value("not_attributed_bytes", size_t{0}) > 0;
  for (const Json& process : gpu.at("processes")) {
    text += text_of_process(process);
    has_rest = has_rest || !process.contains("not_attributed_bytes");
  }
  for (const Json& other : gpu.at("others"))
    text += fmt::format("pid {}: {} of a program without amem or of another user\n",
                        other.at("pid").dump(), human_bytes(other.at("bytes").get<double>()));
  if (has_rest && gpu.contains("not_attributed_bytes"))
    text += "all processes\n" + rest_line(gpu.at("not_attributed_bytes"), gpu.at("processes"),
                                          ", the driver, other programs");
  return text;
}

long pid_of(const Json& process) { return process.at("pid").get<long>(); }
long pid_of(const Answer& process) { return process.pid; }

}  // namespace

int print_attribution(long pid, bool as_json) {
  std::vector<Answer> silent;
  bool is_known = false;
  std::map<std::string, Json> gpus;
  for (Answer& process : ask_status(kAttributionMs, true)) {
    is_known = is_known || process.pid == pid;
    try {
      if (process.silence.empty())
        gpus = with_reply(gpus, process.pid, Json::parse(process.json()));
    } catch (const Json::exception&) {
      process.silence = kNotParsed;
    }
    if (!process.silence.empty()) silent.push_back(process);
  }
  for (auto& [uuid, gpu] : gpus) add_nvml(uuid, gpu);
  const auto is_other = [pid](const auto& process) { return pid > 0 && pid_of(process) != pid; };
  std::erase_if(silent, is_other);
  for (auto& [uuid, gpu] : gpus)
    std::erase_if(gpu["processes"].get_ref<Json::array_t&>(), is_other);
  std::erase_if(gpus, [](const auto& gpu) { return gpu.second["processes"].empty(); });
  if (gpus.empty() && silent.empty() && !(as_json && pid == 0))
    throw Failure(kFailed, pid == 0   ? "no process of this user on this host has memory with amem"
                           : is_known ? fmt::format("process {} has no memory on a GPU", pid)
                                      : why_unknown(pid));
  Json list = Json::array();
  for (const auto& [uuid, gpu] : gpus) {
    if (!as_json) fmt::print("{}", text_of_gpu(gpu));
    list.push_back(gpu);
  }
  if (as_json) fmt::print("{}\n", Json{{"schema", 1}, {"gpus", list}}.dump(2));
  for (const Answer& process : silent)
    fmt::print(stderr, "pid {} did not answer: {}\n", process.pid, process.silence);
  return silent.empty() ? 0 : kNoReply;
}

}  // namespace amem
