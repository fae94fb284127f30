// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "demo/machine.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <stdexcept>
#include <system_error>

namespace demo {
namespace {

constexpr int kSimulatedMib = 1024;  // of each simulated GPU

struct Gpus {
  int count = 0;
  std::string name;
  std::string why_none;
};

/// Asks the driver without making a context.
Gpus real_gpus() {
  Gpus gpus;
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) {
    gpus.why_none = "there is no CUDA driver";
    return gpus;
  }
  const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(library, "cuInit"));
  const auto count = reinterpret_cast<int (*)(int*)>(dlsym(library, "cuDeviceGetCount"));
  const auto name = reinterpret_cast<int (*)(char*, int, int)>(dlsym(library, "cuDeviceGetName"));
  char text[128] = "?";
  if (init == nullptr || count == nullptr || name == nullptr || init(0) != 0 ||
      count(&gpus.count) != 0 || gpus.count == 0) {
    gpus.count = 0;
    gpus.why_none = "the CUDA driver has no GPU";
    return gpus;
  }
  name(text, sizeof text, 0);
  gpus.name = text;
  if (gpus.count < 2) gpus.why_none = "there is only one GPU, and NCCL shares no memory then";
  return gpus;
}

/// The version of the NCCL to which amem's libnccl.so.2 forwards in the ranks; 0 without one.
int nccl_version(const std::filesystem::path& build) {
  const std::string command = (build / "bin/amem_rank").string() + " version 2>/dev/null";
  FILE* pipe = popen(command.c_str(), "r");
  int version = 0;
  if (pipe == nullptr || fscanf(pipe, "%d", &version) != 1) version = 0;
  if (pipe != nullptr) pclose(pipe);
  return version;
}

/// Removes the folder at its end. The folder has up to 1 GiB for each GPU, so a signal that ends
/// this process must not leave it: a child, which no signal of a terminal reaches, waits for the
/// end and removes it.
std::shared_ptr<void> removed_with_this_process(const std::filesystem::path& folder) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe2");
  const pid_t child = fork();
  if (child < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (child == 0) {
    setsid();
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO, ends[1]}) close(fd);
    char nothing;
    while (read(ends[0], &nothing, 1) < 0 && errno == EINTR) {
    }
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
    _exit(0);
  }
  close(ends[0]);
  return {nullptr, [child, end = ends[1]](void*) {
            close(end);
            waitpid(child, nullptr, 0);
          }};
}

}  // namespace

Machine find_machine(const std::filesystem::path& build, bool simulate, int ranks) {
  Machine machine;
  machine.setup.rank_program = (build / "bin/amem_rank").string();
  machine.setup.environment = {{"AMEM_ENABLE", "1"}, {"GMM_LOG", "2"}};
  const Gpus gpus = simulate ? Gpus{0, "", "--simulate was given"} : real_gpus();
  std::string why = gpus.why_none;
  if (gpus.count >= 2) {
    const int version = nccl_version(build);
    if (version > 0) {
      if (ranks > gpus.count)
        throw std::runtime_error(fmt::format(
            "--ranks {} needs as many GPUs, and there are {}; add --simulate", ranks, gpus.count));
      machine.description =
          fmt::format("Real GPUs: {} x {}, stock NCCL {}.{}.{}", gpus.count, gpus.name,
                      version / 10000, version / 100 % 100, version % 100);
      machine.gpu = gpus.name;
      machine.default_ranks = std::min(gpus.count, 4);
      machine.counts = " 17 16384 4194304";
      return machine;
    }
    why = "no libnccl.so.2 was found (AMEM_NCCL_PATH names one)";
  }
  machine.description = fmt::format(
      "Simulated GPUs with minccl, a small library that uses memory as NCCL does, because {}", why);
  machine.gpu = "simulated";
  machine.default_ranks = 4;
  machine.counts = " 17 16384 100000";
  const int gpu_count = ranks > 0 ? ranks : machine.default_ranks;
  const std::filesystem::path temporary = std::filesystem::temp_directory_path();
  // A file that finds no room ends the rank that writes it by SIGBUS.
  const uintmax_t free_mib = std::filesystem::space(temporary).available >> 20;
  const uintmax_t needed_mib = static_cast<uintmax_t>(gpu_count) * kSimulatedMib;
  if (free_mib < needed_mib)
    throw std::runtime_error(fmt::format(
        "{} simulated GPUs need {} MiB in {}, which has {} MiB: set TMPDIR to another folder",
        gpu_count, needed_mib, temporary.string(), free_mib));
  const std::filesystem::path gpus_directory = temporary / fmt::format("amem-demo-{}", getpid());
  std::filesystem::create_directories(gpus_directory);
  machine.simulated_memory = removed_with_this_process(gpus_directory);
  auto& environment = machine.setup.environment;
  environment["LD_LIBRARY_PATH"] = (build / "sim").string();
  environment["AMEM_NCCL_PATH"] = (build / "sim/libnccl.so.2").string();
  environment["AMEM_SIM_DIR"] = gpus_directory.string();
  environment["AMEM_SIM_MEMORY_MB"] = std::to_string(kSimulatedMib);
  environment["AMEM_SIM_DEVICES"] = std::to_string(gpu_count);
  return machine;
}

}  // namespace demo
