// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace amem::minccl {

/// How data is transferred through a connection's FIFO (protocol_*.h).
enum class Protocol : int { ll = 0, ll128 = 1, simple = 2 };
inline constexpr int kProtocols = 3;

enum class DebugLevel { none, warn, info };

/// The environment of this process, read once at the first call that needs it, as in NCCL; constant
/// afterwards.
struct Settings {
  int version = 22809;  ///< MINCCL_VERSION: what ncclGetVersion() returns
  bool cumem = true;  ///< NCCL_CUMEM_ENABLE: 0 uses cuMemAlloc, whose memory no other process maps
  bool p2p_disabled = false;  ///< NCCL_P2P_DISABLE
  bool p2p_read = false;      ///< NCCL_P2P_READ_ENABLE: the receiver reads from the sender's memory
  bool nvls = false;          ///< NCCL_NVLS_ENABLE: 1 (NCCL's default: 2, where it pays)
  uint64_t host = 0;          ///< NCCL_HOSTID: ranks with another value are on another node
  int mnnvl = 2;              ///< NCCL_MNNVL_ENABLE: 0; 1: also on one node; 2
  bool gpus_shared = false;   ///< NCCL_MULTI_RANK_GPU_ENABLE: ranks may share a GPU (NCCL 2.30.3)
  std::optional<Protocol> protocol;        ///< NCCL_PROTO: LL, LL128 or Simple; default: by size
  DebugLevel debug = DebugLevel::none;     ///< NCCL_DEBUG: WARN, INFO
  int channels = 2;                        ///< MINCCL_CHANNELS, 1 to 16
  size_t simple_bytes = 1 << 20;           ///< MINCCL_BUFFSIZE: the Simple FIFO of a connection
  const char* net_plugin = nullptr;        ///< NCCL_NET_PLUGIN: the path of a network plugin
  const char* net_plugin_table = nullptr;  ///< MINCCL_NET_PLUGIN_TABLE: looked up first
  /// MINCCL_NET_PLUGIN_LEAST: only buffers of this size or more are registered, because NCCL
  /// registers network buffers but not P2P buffers.
  size_t net_plugin_least_bytes = 0;
  const char* address = "127.0.0.1";  ///< MINCCL_ADDRESS: of this host, IPv4
  long timeout_ms = 60000;            ///< MINCCL_TIMEOUT_MS: every wait except those inside kernels
};

const Settings& settings();

}  // namespace amem::minccl
