// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <string>

#include "demo/machine.h"
#include "jobs/job.h"

namespace bench {

/// A way to run the same ranks on the same GPUs.
struct Contender {
  std::string name;
  jobs::Setup setup;
};

/// Ranks with amem, with amem's libraries loaded but AMEM_ENABLE=0, and without any part of amem.
/// All three use the NCCL library `nccl_file`.
struct Contenders {
  Contender amem, forwarding, plain;
  std::string nccl_file;
  int nccl_version = 0;  ///< as in ncclGetVersion: 22809 is 2.28.9
};

/// Starts a small job with amem, which also warms up the machine, and determines its NCCL library.
/// Throws std::runtime_error if the ranks do not run.
Contenders find_contenders(const demo::Machine& machine, int gpus);

/// Ranks without amem on this libnccl.so.2. Throws std::runtime_error if such a rank loads a
/// different library.
Contender without_amem(const demo::Machine& machine, const std::string& name,
                       const std::string& nccl_file);

/// "2.28.9"
std::string version_text(int nccl_version);

}  // namespace bench
