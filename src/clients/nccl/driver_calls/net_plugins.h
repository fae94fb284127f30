// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

namespace amem {

/// Network plugins of NCCL (NCCL User Guide, NCCL_NET_PLUGIN): libraries that export tables of
/// functions, such as `ncclNetPlugin_v11`, which NCCL looks up with dlsym. A plugin registers
/// device memory with its NIC by its physical addresses, so that memory must stay where it is.

/// True for the name of such a table, of any version.
bool is_net_plugin(const char* name);

/// A copy of the plugin's table whose registration functions make the memory persistent. For a
/// table of an unknown version returns `table`, and later pauses are refused. REQUIRES:
/// is_net_plugin(name).
void* net_plugin_wrapper(const char* name, void* table);

}  // namespace amem
