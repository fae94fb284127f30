// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "driver/driver.h"
#include "memory/registry.h"

namespace amem {

// Driver calls for one backing, and their record. If a driver call fails, a step is incomplete. The
// record contains the calls that succeeded, so that the same step can be continued and the opposite
// step can undo it.

/// Unbinds the backing from multicast objects, unmaps it at all its addresses and releases it.
/// Addresses stay reserved.
Status unmap_backing(const Driver& driver, Backing& backing);

/// Unmaps the backing at this address only.
Status unmap_at(const Driver& driver, Backing& backing, DeviceAddress address);

/// Creates memory for a backing that has none, maps it at every placement with the access that the
/// client granted, and binds it to multicast objects again. Contents are undefined until filled.
Status create_backing(const Driver& driver, Backing& backing);

/// Imports `fd` for an import that has no memory, and maps it in the same way.
Status import_backing(const Driver& driver, Backing& backing, void* shareable, int handle_type);

/// Maps the backing at a placement where it is not mapped yet, with its access. Does nothing while
/// the backing has no memory.
Status map_placement(const Driver& driver, const Backing& backing, Placement& placement);

/// Maps the backing at `address`, which is reserved, or 0 for new addresses, with this access.
/// After an error the addresses are freed.
Result<DeviceAddress> place_backing(const Driver& driver, Registry& registry, Backing& backing,
                                    std::vector<Access> access = {}, DeviceAddress address = 0)
    AMEM_REQUIRES(registry.mutex);

/// Erases an unused allocation. Erases its backing too if it was the last one, and releases memory
/// and addresses.
void erase_unused(const Driver& driver, Registry& registry, const Allocation& allocation)
    AMEM_REQUIRES(registry.mutex);

/// Erases a backing without allocations, and releases its memory and addresses. If a copy is
/// running, the backing is erased when the copy has ended.
void erase_if_empty(const Driver& driver, Registry& registry, Backing& backing)
    AMEM_REQUIRES(registry.mutex);

/// Devices on which this process may have work: those of its own backings and those with access to
/// them. Takes the registry's mutex.
std::vector<int> devices_in_use(Registry& registry);

}  // namespace amem
