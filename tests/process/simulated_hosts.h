// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "jobs/job.h"

namespace amem {

/// Two simulated hosts of one IMEX domain. A host is a network namespace, with an address that the
/// other one reaches through a veth pair; its processes have a host name and a /dev/shm of its own.
class SimulatedHosts {
 public:
  static constexpr char kKey[] = "the key of this job alone";

  SimulatedHosts() {
    if (!run("unshare --net --uts --mount true")) return;
    for (int host = 0; host < 2; ++host) holders_.push_back(hold());
    exist_ = on(
        0, "ip link add name amem0 type veth peer name amem0 netns " + std::to_string(holders_[1]));
    for (const int host : {0, 1})
      exist_ = exist_ && on(host, "ip addr add " + address(host) + "/24 dev amem0") &&
               on(host, "ip link set lo up") && on(host, "ip link set amem0 up");
  }
  ~SimulatedHosts() {
    for (const pid_t holder : holders_) {
      kill(holder, SIGKILL);
      waitpid(holder, nullptr, 0);
    }
    std::filesystem::remove_all(folder_);
  }
  SimulatedHosts(const SimulatedHosts&) = delete;

  /// False where this user may not make them.
  bool exist() const { return exist_; }

  /// Each rank starts on its host, with the job's key.
  void place(jobs::Setup* setup, const std::vector<int>& host_of_rank) {
    setup->environment["AMEM_SIM_FABRIC"] = "domain";
    setup->environment["AMEM_SIM_DIR"] = folder_;
    setup->environment["AMEM_JOB_KEY"] = kKey;
    setup->environment["NCCL_SOCKET_IFNAME"] = "amem0";
    setup->environment["AMEM_TEST_FOLDER"] = folder_;
    for (size_t rank = 0; rank < host_of_rank.size(); ++rank) {
      const int host = host_of_rank[rank];
      std::filesystem::create_directories(folder_ / name(host));
      setup->environment_of_rank[static_cast<int>(rank)].insert(
          {{"NCCL_HOSTID", name(host)},
           {"MINCCL_ADDRESS", address(host)},
           {"AMEM_TEST_NETWORK", network_of(host)}});
    }
    const std::filesystem::path script = folder_ / "rank";
    std::ofstream(script)
        << "#!/bin/sh\nexec nsenter --net=$AMEM_TEST_NETWORK unshare --mount --uts sh -c '"
           "hostname $NCCL_HOSTID && mount --bind $AMEM_TEST_FOLDER/$NCCL_HOSTID /dev/shm && exec "
        << setup->rank_program << "'\n";
    chmod(script.c_str(), 0755);
    setup->rank_program = script;
  }

  /// Gives both an interface amem6 that has addresses of IPv6 alone: fd77::1 and fd77::2.
  bool add_ipv6() {
    bool added = on(
        0, "ip link add name amem6 type veth peer name amem6 netns " + std::to_string(holders_[1]));
    for (const int host : {0, 1})
      added =
          added &&
          on(host, "ip -6 addr add fd77::" + std::to_string(host + 1) + "/64 dev amem6 nodad") &&
          on(host, "ip link set amem6 up");
    return added;
  }
  /// Whether packets pass between the hosts. `at`: the host whose interface goes up or down.
  bool connect(bool connected, int at = 1) {
    return on(at, std::string("ip link set amem0 ") + (connected ? "up" : "down"));
  }
  /// Runs a command in the network of a host. Returns whether it succeeded.
  bool on(int host, const std::string& command) {
    return run("nsenter --net=" + network_of(host) + " " + command);
  }

  static std::string name(int host) { return "tray" + std::to_string(host); }
  static std::string address(int host) { return "10.77.0." + std::to_string(host + 1); }

 private:
  static bool run(const std::string& command) {
    return system((command + " > /dev/null 2>&1").c_str()) == 0;
  }
  std::string network_of(int host) const {
    return "/proc/" + std::to_string(holders_.at(static_cast<size_t>(host))) + "/ns/net";
  }
  /// A process whose network namespace is that of a host.
  static pid_t hold() {
    int ready[2];
    if (pipe(ready) != 0) return -1;
    const pid_t child = fork();
    if (child == 0) {
      if (unshare(CLONE_NEWNET) != 0) _exit(1);
      close(ready[0]);
      close(ready[1]);
      for (;;) pause();
    }
    close(ready[1]);
    char byte;
    // Its end of the pipe closes when the namespace exists, or the process has ended.
    while (read(ready[0], &byte, 1) > 0) {
    }
    close(ready[0]);
    return child;
  }

  std::vector<pid_t> holders_;
  bool exist_ = false;
  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("amem-hosts-" + std::to_string(getpid()));
};

}  // namespace amem
