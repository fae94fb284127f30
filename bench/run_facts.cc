// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "bench/run_facts.h"

#include <dlfcn.h>
#include <fmt/chrono.h>
#include <fmt/core.h>
#include <unistd.h>

#include <ctime>
#include <fstream>
#include <thread>

namespace bench {

namespace {

/// "580.159.04", as NVIDIA's management library has it.
std::string driver_version() {
  std::string version = "unknown";
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  if (library == nullptr) return version;
  const auto init = reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2"));
  const auto read =
      reinterpret_cast<int (*)(char*, unsigned)>(dlsym(library, "nvmlSystemGetDriverVersion"));
  char text[96] = "";
  if (init != nullptr && read != nullptr && init() == 0 && read(text, sizeof text) == 0)
    version = text;
  return version;
}

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  return "unknown";
}

nlohmann::json variables() {
  nlohmann::json found = nlohmann::json::object();
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const size_t equals = text.find('=');
    for (const char* prefix : {"NCCL_", "AMEM_", "GMM_", "CUDA_"})
      if (equals != text.npos && text.rfind(prefix, 0) == 0)
        found[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return found;
}

}  // namespace

nlohmann::json run_facts(const demo::Machine& machine, const Contenders& contenders, int gpus) {
  const bool simulated = machine.gpu == "simulated";
  return {{"gpus", gpus},
          {"gpu", machine.gpu},
          {"driver", simulated ? "simulated" : driver_version()},
          {"nccl", simulated ? "minccl" : version_text(contenders.nccl_version)},
          {"processor", processor()},
          {"cores", std::thread::hardware_concurrency()},
          {"date", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
          {"environment", variables()}};
}

}  // namespace bench
