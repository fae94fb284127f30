// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

namespace amem {

// Functions outside the driver that use device memory by its physical addresses, so that it must
// stay where it is: registration with a NIC (libibverbs), mapping for the CPU (gdrcopy), export as
// a dma-buf or as a descriptor of the driver, which does not identify its importers, and network
// plugins of NCCL (NCCL User Guide, NCCL_NET_PLUGIN). A plugin exports
// tables of functions, such as `ncclNetPlugin_v11`. NCCL looks up all of them with dlsym or dlvsym.

/// True for the name of such a function, or of such a table of any version.
bool registers_memory(const char* name);

/// A function, or a copy of the table, that makes the memory persistent and calls `real`. For a
/// table of an unknown version returns `real`, and later pauses are refused. REQUIRES:
/// registers_memory(name).
void* registration_hook(const char* name, void* real);

/// Intercepts the functions, not the tables, in all other libraries of the process, such as UCX and
/// NVSHMEM. To be called before start_interposition().
void catch_registrations();

}  // namespace amem
