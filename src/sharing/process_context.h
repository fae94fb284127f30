// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <optional>
#include <string>

#include "base/exit_flag.h"
#include "base/identity.h"
#include "driver/device_threads.h"
#include "driver/driver.h"
#include "memory/client.h"
#include "memory/registry.h"
#include "sharing/peer_table.h"
#include "transport/job_key.h"
#include "transport/peer_service.h"

namespace amem {

/// The objects that the parts of the engine share. Constant after the set-up of the process, except
/// `peer_table`, which locks itself, and `peers`, which is set once, before the first token is made
/// or read.
struct ProcessContext {
  const Driver& driver;
  Registry& registry;
  DeviceThreads& devices;
  const ExitFlag& exiting;  ///< also used by the device threads
  InstanceId self;
  int32_t group = 0;
  long timeout_ms = 60000;
  long gate_timeout_ms = 1800000;  ///< how long a call waits for a paused process
  long resume_wait_ms = 0;         ///< how long a resume waits for GPU memory
  /// AMEM_JOB_KEY, unless it is not set. Its file may be slow: nothing reads it under a lock.
  std::optional<Result<JobKey>> job_key{};
  std::string interfaces{};  ///< of the network between the hosts: listen_for_hosts()
  Clients clients{};
  PeerTable peer_table{};
  std::atomic<PeerService*> peers{nullptr};
  /// For resumes: they fill memory while `devices` save other memory.
  DeviceThreads fill_threads{driver, exiting};
};

/// "process 1234", for messages. The kernel shows no pid of a process of another pid namespace.
/// For one of another host, its PeerInfo::remote_name.
inline std::string process_text(pid_t pid, const std::string& remote_name = {}) {
  if (!remote_name.empty()) return remote_name;
  return pid == 0 ? "a process of another container" : "process " + std::to_string(pid);
}
/// For calls that wait for it.
inline std::string paused_text(const std::string& process) { return process + " is paused"; }
/// For calls that fail because it has ended.
inline std::string ended_text(const std::string& process) { return process + ", has ended"; }

}  // namespace amem
