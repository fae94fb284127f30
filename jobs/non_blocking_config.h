// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <climits>
#include <cstddef>

namespace jobs {

/// ncclConfig_t with blocking = 0 in the version of NCCL 2.17, which every later NCCL accepts:
/// fields were only added, and `size` and `version` identify it. Declared here, because a machine
/// may have no nccl.h.
struct NonBlockingConfig {
  size_t size = sizeof(NonBlockingConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = 21701;
  int blocking = 0;
  // NCCL chooses: NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR.
  int cga_cluster_size = INT_MIN;
  int min_ctas = INT_MIN;
  int max_ctas = INT_MIN;
  const char* net_name = nullptr;
  int split_share = INT_MIN;
};

}  // namespace jobs
