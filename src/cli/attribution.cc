// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "cli/attribution.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/failure.h"
#include "cli/process_status.h"
#include "cli/status_report.h"
#include "driver/nvml.h"
#include "transport/socket_address.h"

namespace amem {
namespace {

using Json = nlohmann::json;

constexpr long kAttributionMs = 5000;

size_t sum_of(const Json& owners) {
  size_t sum = 0;
  for (const Json& owner : owners) sum += owner.at("bytes").get<size_t>();
  return sum;
}

/// Adds what NVML reports: of the GPU, of each process, and of processes without amem. What has no
/// owner is of a process if NVML reports how much that has, and otherwise of the GPU.
void add_nvml(const std::string& uuid, Json& gpu) {
  const GpuReport report = ask_nvml(uuid);
  gpu["model"] = report.model;
  if (report.index) gpu["index"] = *report.index;
  if (report.memory) gpu["used_bytes"] = report.memory->used_bytes;
  size_t known = 0;
  std::map<long, size_t> others;
  for (const MemoryHolder& holder : report.holders)
    if (holder.size_bytes) others[holder.pid] = *holder.size_bytes;
  for (Json& process : gpu["processes"]) {
    const size_t owned = sum_of(process.at("owners"));
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
  if (gpu.contains("used_bytes"))
    gpu["not_attributed_bytes"] =
        gpu["used_bytes"].get<size_t>() - std::min(gpu["used_bytes"].get<size_t>(), known);
}

/// Adds a process to the GPUs, by UUID.
void add_reply(long pid, const Json& reply, std::map<std::string, Json>& gpus) {
  for (const Json& gpu : reply.at("gpus")) {
    (void)sum_of(gpu.at("owners"));
    const Json process = {{"pid", pid},
                          {"command", command_of(pid)},
                          {"names_libraries", reply.at("names_libraries")},
                          {"owners", gpu.at("owners")}};
    Json& all = gpus[gpu.at("gpu")];
    for (const char* name : {"gpu", "total_bytes", "used_bytes"})
      if (gpu.contains(name)) all[name] = gpu.at(name);
    all["processes"].push_back(process);
  }
}

std::string size_line(const Json& bytes, const std::string& text) {
  return fmt::format("{:>13}  {}\n", human_bytes(bytes.get<double>()), text);
}

/// What has no owner.
std::string rest_line(const Json& bytes, bool names_libraries, const char* more = "") {
  return size_line(
      bytes,
      fmt::format("not attributed: CUDA contexts, kernels, rounding to pages{}{}",
                  names_libraries ? "" : ", libraries (AMEM_ATTRIBUTION=1 names them)", more));
}

std::string text_of(const Json& process) {
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
  if (process.contains("not_attributed_bytes"))
    text += rest_line(process.at("not_attributed_bytes"), process.at("names_libraries") == true);
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
  bool has_rest = false, names_libraries = true;
  for (const Json& process : gpu.at("processes")) {
    text += text_of(process);
    has_rest = has_rest || !process.contains("not_attributed_bytes");
    names_libraries = names_libraries && process.at("names_libraries") == true;
  }
  for (const Json& other : gpu.at("others"))
    text += fmt::format("pid {}: {} of another program\n", other.at("pid").dump(),
                        human_bytes(other.at("bytes").get<double>()));
  if (has_rest && gpu.contains("not_attributed_bytes"))
    text += "all processes\n" +
            rest_line(gpu.at("not_attributed_bytes"), names_libraries, ", other programs");
  return text;
}

long pid_of(const Json& process) { return process.at("pid").get<long>(); }
long pid_of(const ProcessStatus& process) { return process.pid; }

}  // namespace

int print_attribution(long pid, bool as_json) {
  const Result<std::set<InstanceId>> instances = instances_of_this_user();
  if (!instances.ok()) throw Failure(kFailed, instances.error().message);
  std::vector<ProcessStatus> silent;
  std::map<std::string, Json> gpus;
  for (ProcessStatus& process : ask_status(instances.value(), kAttributionMs, true)) {
    try {
      if (process.silence.empty()) add_reply(process.pid, Json::parse(process.json), gpus);
    } catch (const Json::exception&) {
      process.silence = "its reply cannot be parsed: it may be another version of amem";
    }
    if (!process.silence.empty()) silent.push_back(process);
  }
  for (auto& [uuid, gpu] : gpus) add_nvml(uuid, gpu);
  const auto is_other = [pid](const auto& process) { return pid > 0 && pid_of(process) != pid; };
  std::erase_if(silent, is_other);
  for (auto& [uuid, gpu] : gpus)
    std::erase_if(gpu["processes"].get_ref<Json::array_t&>(), is_other);
  std::erase_if(gpus, [](const auto& gpu) { return gpu.second["processes"].empty(); });
  if (gpus.empty() && silent.empty())
    throw Failure(kFailed, pid > 0
                               ? fmt::format("process {} has no memory with amem, or is another "
                                             "user's",
                                             pid)
                               : "no process of this user on this host has memory with amem");
  Json list = Json::array();
  for (const auto& [uuid, gpu] : gpus) {
    if (!as_json) fmt::print("{}", text_of_gpu(gpu));
    list.push_back(gpu);
  }
  if (as_json) fmt::print("{}\n", Json{{"schema", 1}, {"gpus", list}}.dump(2));
  for (const ProcessStatus& process : silent)
    fmt::print(stderr, "pid {} did not answer: {}\n", process.pid, process.silence);
  return silent.empty() ? 0 : kNoReply;
}

}  // namespace amem
