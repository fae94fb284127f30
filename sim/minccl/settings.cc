// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sim/minccl/settings.h"

#include <strings.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string_view>

namespace amem::minccl {
namespace {

long number(const char* name, long otherwise, long lowest, long highest) {
  const char* text = getenv(name);
  if (text == nullptr || *text == '\0') return otherwise;
  char* end = nullptr;
  long value = strtol(text, &end, 0);
  return *end == '\0' ? std::clamp(value, lowest, highest) : otherwise;
}

bool is(const char* text, const char* wanted) {
  return text != nullptr && strcasecmp(text, wanted) == 0;
}

Settings read_settings() {
  Settings read;
  read.version = static_cast<int>(number("MINCCL_VERSION", read.version, 1, 999999));
  read.cumem = number("NCCL_CUMEM_ENABLE", 1, -2, 1) != 0;
  read.p2p_disabled = number("NCCL_P2P_DISABLE", 0, 0, 1) == 1;
  read.p2p_read = number("NCCL_P2P_READ_ENABLE", 0, 0, 1) == 1;
  read.nvls = number("NCCL_NVLS_ENABLE", 0, 0, 2) == 1;
  if (const char* host = getenv("NCCL_HOSTID")) read.host = std::hash<std::string_view>()(host);
  read.mnnvl = static_cast<int>(number("NCCL_MNNVL_ENABLE", 2, 0, 2));
  read.gpus_shared = number("NCCL_MULTI_RANK_GPU_ENABLE", 0, 0, 1) == 1;
  const char* protocol = getenv("NCCL_PROTO");
  if (is(protocol, "LL")) read.protocol = Protocol::ll;
  if (is(protocol, "LL128")) read.protocol = Protocol::ll128;
  if (is(protocol, "Simple")) read.protocol = Protocol::simple;
  const char* debug = getenv("NCCL_DEBUG");
  if (is(debug, "WARN")) read.debug = DebugLevel::warn;
  if (is(debug, "INFO") || is(debug, "TRACE")) read.debug = DebugLevel::info;
  read.channels = static_cast<int>(number("MINCCL_CHANNELS", 2, 1, 16));
  // Whole LL128 lines in each of the 8 slots, see FifoLayout.
  long simple = number("MINCCL_BUFFSIZE", 1 << 20, 8 << 10, 64 << 20);
  read.simple_bytes = static_cast<size_t>((simple + 1023) / 1024 * 1024);
  read.net_plugin = getenv("NCCL_NET_PLUGIN");
  if (const char* address = getenv("MINCCL_ADDRESS")) read.address = address;
  read.net_plugin_table = getenv("MINCCL_NET_PLUGIN_TABLE");
  read.net_plugin_least_bytes =
      static_cast<size_t>(number("MINCCL_NET_PLUGIN_LEAST", 0, 0, 1L << 40));
  read.timeout_ms = number("MINCCL_TIMEOUT_MS", 60000, 1, 86400000);
  return read;
}

}  // namespace

const Settings& settings() {
  static const Settings read = read_settings();
  return read;
}

}  // namespace amem::minccl
