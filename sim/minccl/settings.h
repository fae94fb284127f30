// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstddef>
#include <optional>

namespace amem::minccl {

/// How data goes through a connection's FIFO (protocol_*.h).
enum class Protocol : int { ll = 0, ll128 = 1, simple = 2 };
inline constexpr int kProtocols = 3;

enum class DebugLevel { none, warn, info };

/// The environment of this process, read once at the first call that needs it (as NCCL reads its
/// parameters); constant after that.
struct Settings {
  bool cumem = true;          ///< NCCL_CUMEM_ENABLE: 0 takes cuMemAlloc and gives up P2P by fd
  bool p2p_disabled = false;  ///< NCCL_P2P_DISABLE
  bool shm_disabled = false;  ///< NCCL_SHM_DISABLE
  bool gpus_shared = false;   ///< NCCL_MULTI_RANK_GPU_ENABLE: ranks may share one (NCCL 2.30.3)
  std::optional<Protocol> protocol;     ///< NCCL_PROTO: LL, LL128 or Simple; else by size
  DebugLevel debug = DebugLevel::none;  ///< NCCL_DEBUG: WARN, INFO
  int channels = 2;                     ///< MINCCL_CHANNELS, 1 to 16
  size_t simple_bytes = 1 << 20;        ///< MINCCL_BUFFSIZE: the Simple FIFO of a connection
  long timeout_ms = 60000;              ///< MINCCL_TIMEOUT_MS: every wait but those inside kernels
};

const Settings& settings();

}  // namespace amem::minccl
