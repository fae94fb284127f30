// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>

#include "cli/doctor/doctor.h"
#include "cli/status_report.h"
#include "contents/host_memory.h"
#include "driver/driver.h"
#include "driver/gpu_list.h"
#include "transport/socket_address.h"

namespace amem {
namespace {

using enum Finding::Verdict;

constexpr int kOldestCompute = 80;
constexpr DriverResult kNoDevice = 100;  // cuda.h, CUDA_ERROR_NO_DEVICE
constexpr rlim_t kFewDescriptors = 4096;

Finding gpu_finding(const Gpu& gpu, int count) {
  const std::string text = fmt::format("{} x {}, {}, compute capability {}.{}", count, gpu.name,
                                       human_bytes(static_cast<double>(gpu.memory_bytes)),
                                       gpu.compute / 10, gpu.compute % 10);
  if (gpu.compute < kOldestCompute) return {fail, "GPU", text + "; amem needs 8.0 or newer"};
  if (gpu.has_virtual_memory) return {ok, "GPU", text};
  return {fail, "GPU",
          text +
              "; the driver offers no virtual memory management with file descriptors on it, "
              "which amem and NCCL's cuMem mode need"};
}

void add_gpus(Findings& findings) {
  const Result<Driver> driver = load_driver();
  if (!driver.ok()) return findings.push_back({fail, "driver", driver.error().message});
  int version = 0;
  driver.value().cuDriverGetVersion(&version);
  findings.push_back(
      {ok, "driver", fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10)});
  const Result<std::vector<Gpu>> gpus = list_gpus(driver.value());
  // Also the result of cuInit() if CUDA_VISIBLE_DEVICES is empty.
  const bool has_none = gpus.ok() ? gpus.value().empty() : gpus.error().code == kNoDevice;
  if (has_none)
    return findings.push_back(
        {fail, "GPU",
         "none is visible; is CUDA_VISIBLE_DEVICES empty? A container needs the GPUs of its host"});
  if (!gpus.ok())
    return findings.push_back(
        {fail, "GPU",
         gpus.error().message + ": look at nvidia-smi; a container needs the GPUs of its host"});
  std::map<Gpu, int> counts;
  for (const Gpu& gpu : gpus.value()) ++counts[gpu];
  for (const auto& [gpu, count] : counts) findings.push_back(gpu_finding(gpu, count));
}

Finding descriptors_finding() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const std::string text = fmt::format("{} open files, at most {}", limit.rlim_cur, limit.rlim_max);
  if (limit.rlim_max < kFewDescriptors)
    return {note, "descriptors",
            text +
                "; a resume needs one for each block of NCCL memory that processes share: raise "
                "the hard limit (ulimit -Hn) if a pause is refused"};
  return {ok, "descriptors", text + "; amem raises the soft limit when needed"};
}

Finding host_memory_finding() {
  return {ok, "host memory",
          human_bytes(static_cast<double>(available_host_bytes())) +
              " available to this process; released memory whose contents are kept needs as much"};
}

/// Creates what every process of a job creates in /dev/shm.
Status check_sockets() {
  const InstanceId instance = random_instance_id();
  const UniqueFd listener = AMEM_TRY(listen_at(instance));
  unlink(socket_path(instance).c_str());
  return ok_status();
}

void add_processes(Findings& findings) {
  const Status usable = check_sockets();
  const Result<std::set<InstanceId>> instances = instances_of_this_user();
  if (!usable.ok() || !instances.ok())
    return findings.push_back(
        {fail, "processes",
         (usable.ok() ? instances.error() : usable.error()).message +
             ": processes of a job find one another in /dev/shm, which must be "
             "writable for this user: mount a tmpfs there"});
  findings.push_back(
      {ok, "processes",
       fmt::format("user {} has {} processes with amem that share /dev/shm with this one",
                   geteuid(), instances.value().size())});
  struct stat own {};
  // The inode of the initial pid namespace (include/linux/proc_ns.h).
  constexpr ino_t kInitialPidNamespace = 0xEFFFFFFC;
  if (stat("/proc/self/ns/pid", &own) == 0 && own.st_ino != kInitialPidNamespace)
    findings.push_back({note, "container",
                        "processes in other containers can be members of the same communicators "
                        "only if both share /dev/shm (docker run --ipc=...) and the user id"});
}

}  // namespace

Findings machine_findings() {
  Findings findings;
  add_gpus(findings);
  findings.push_back(descriptors_finding());
  findings.push_back(host_memory_finding());
  add_processes(findings);
  return findings;
}

}  // namespace amem
