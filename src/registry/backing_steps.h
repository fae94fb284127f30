// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "driver/driver.h"
#include "registry/registry.h"

namespace amem {

// What the driver is told for one backing, and the record of it. A step may break off in the
// middle, when the driver refuses one of its calls. What was done is recorded, so that the same
// step can be taken up again, and its opposite undoes just that.

/// Unmaps the backing everywhere and releases it; addresses stay reserved.
Status unmap_backing(const Driver& driver, Backing& backing);

/// Makes new memory for a backing that has none, and maps it at every placement, with the access
/// NCCL granted. Contents are undefined until filled.
Status create_backing(const Driver& driver, Backing& backing);

/// Imports `fd` for an import that has no memory, and maps it likewise.
Status import_backing(const Driver& driver, Backing& backing, int fd);

/// Maps the backing, if it is here, at a placement that it lacks, with the access granted there.
Status map_placement(const Driver& driver, const Backing& backing, Placement& placement);

/// Places a slab at fresh addresses, reserved for it.
Result<DeviceAddress> place_slab(const Driver& driver, Registry& registry, Backing& slab)
    AMEM_REQUIRES(registry.mutex);

/// Erases an allocation that is unused, and with the last one its backing, whose memory and
/// addresses go back.
void erase_unused(const Driver& driver, Registry& registry, const Allocation& allocation)
    AMEM_REQUIRES(registry.mutex);

/// Erases a backing without allocations; its memory and addresses go back. One in which a copy is
/// under way stays until the copy has ended.
void erase_if_empty(const Driver& driver, Registry& registry, Backing& backing)
    AMEM_REQUIRES(registry.mutex);

/// Devices on which this process may have work: those of its own backings and those that were
/// granted access.
std::vector<int> devices_in_use(Registry& registry) AMEM_REQUIRES(registry.mutex);

}  // namespace amem
