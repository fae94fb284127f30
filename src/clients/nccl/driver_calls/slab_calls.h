// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "clients/nccl/hook_context.h"
#include "memory/allocation.h"

namespace amem {

// Placement of NCCL's buffers in slabs. NCCL creates each buffer in one function, on one thread:
//
//   granularity (minimum), create,     reserve, map, access      ncclCuMemAlloc (alloc.h:212)
//   granularity (minimum), import,     reserve, map, access      p2p.cc:265
//   properties, granularity (minimum), reserve, map, access      ncclCuMemAllocAddr (alloc.h:181)
//
// (@v2.28.9-1; the same from v2.20.5-1 to v2.30.7-1.) Memory that must not be in a slab
// (ncclMemAlloc, windows, multicast) queries the recommended granularity. The query therefore
// identifies the following allocation, and the reservation can return its address in the slab.
// amem verifies the sequence: a create without the query, and a map at another address, get a
// backing of their own.

/// The calling thread's position in this sequence.
struct CallSequence {
  bool buffer_expected = false;       ///< it queried the minimum: a buffer of NCCL follows
  AllocationId mapping_expected = 0;  ///< its next reservation is for this allocation
};
inline constinit thread_local CallSequence t_call_sequence;

/// Allocates in a slab, and creates a slab if necessary. nullptr if there is no memory for a slab,
/// or if a used slot cannot be zeroed. Takes and releases the registry's mutex.
DriverHandle allocate_in_slab(HookContext& context, size_t size_bytes,
                              const AllocationProperties& properties);

/// An address of the allocation in its slab at which nothing is mapped; 0 if it is not in a slab or
/// the driver has no free addresses.
DeviceAddress address_in_slab(HookContext& context, Allocation& allocation)
    AMEM_REQUIRES(context.registry->mutex);

/// NCCL maps the allocation at another address: moves it into its own backing, unless its contents
/// may already be used.
DriverResult leave_slab(HookContext& context, Allocation& allocation)
    AMEM_REQUIRES(context.registry->mutex);

/// Rounds a size that NCCL computed with amem's granularity up to the driver's granularity.
size_t driver_bytes(const HookContext& context, size_t size_bytes);

}  // namespace amem
