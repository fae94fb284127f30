// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "hook/hook_context.h"
#include "registry/allocation.h"

namespace amem {

// What lets NCCL's buffers lie in slabs. NCCL makes each in one function, on one thread:
//
//   granularity (minimum), create,     reserve, map, access      ncclCuMemAlloc (alloc.h:212)
//   granularity (minimum), import,     reserve, map, access      p2p.cc:265
//   properties, granularity (minimum), reserve, map, access      ncclCuMemAllocAddr (alloc.h:181)
//
// (@v2.28.9-1; the same from v2.20.5-1 to v2.30.7-1.) Whatever must not be moved into a slab
// (ncclMemAlloc, windows, multicast) asks for the recommended granularity. So the question tells
// what comes, and the answer to "reserve" can be the place that the allocation has in its slab.
// Nothing of this is trusted: a create without the question, and a map elsewhere, get a backing of
// their own.

/// This thread asked for a granularity: does a buffer of NCCL come next?
void note_granularity_question(bool minimum);
/// True once for each such question.
bool take_buffer_expected();

/// The next reservation of this thread is for this allocation.
void expect_mapping_of(DriverHandle handle);
/// Which it is, once; 0 for none.
AllocationId take_mapping_expected();

/// A new allocation in a slab, made if need be; nullptr when there is no room for one, or what was
/// there cannot be zeroed. Takes and lets go of the registry's mutex.
DriverHandle allocate_in_slab(HookContext& context, size_t size_bytes,
                              const AllocationProperties& properties);

/// An address at which nothing is mapped and that is the allocation's, in its slab; 0 when it is in
/// none or the driver has no addresses.
DeviceAddress address_in_slab(HookContext& context, Allocation& allocation)
    AMEM_REQUIRES(context.registry->mutex);

/// NCCL maps an allocation elsewhere than in its slab: gives it a backing of its own, when it is
/// not too late.
DriverResult leave_slab(HookContext& context, Allocation& allocation)
    AMEM_REQUIRES(context.registry->mutex);

/// A size that NCCL computed with our unit, as the driver takes it.
size_t driver_bytes(const HookContext& context, size_t size_bytes);

}  // namespace amem
