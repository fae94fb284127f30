// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstddef>

#include "sim/minccl/api.h"

namespace amem::minccl {

/// Registers device memory with the network plugin that NCCL_NET_PLUGIN names, if any, as NCCL
/// does with buffers of connections through a network. Tables are looked up newest first.
ncclResult_t register_with_net_plugin(void* address, size_t size_bytes);

}  // namespace amem::minccl
