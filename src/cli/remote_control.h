// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>

namespace amem {

/// What `amem pause` and `amem resume` are given.
struct RemoteOptions {
  pid_t pid = 0;               ///< the job of this process; of `--tag nccl`, this process alone
  std::string group;           ///< the job with this logical group
  bool all = false;            ///< all jobs of the user on this host
  std::set<std::string> tags;  ///< none: all
  double wait_s = 60;          ///< for the safe point of a pause, for GPU memory of a resume

  bool is_nccl() const { return tags == std::set<std::string>{"nccl"}; }
  uint32_t wait_ms() const { return std::max(1u, static_cast<uint32_t>(wait_s * 1000)); }
};

/// Pauses the processes of a job, or none of them, and prints a line for each. The jobs of --all
/// one after another. Says why, and returns the exit code, if a process refuses, does not answer,
/// or does not reach the safe point in time (api/remote_control.h).
int pause_jobs(const RemoteOptions& options);

/// Resumes what pause_jobs() has paused: all processes of a job, or none.
int resume_jobs(const RemoteOptions& options);

}  // namespace amem
