// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "driver/driver.h"
#include "registry/registry.h"

namespace amem {

// What the driver is told for one allocation, and the record of it: one step under the registry's
// mutex, whole or not at all.

/// Maps the allocation's backing at every address where NCCL has it, with the access NCCL granted.
/// On error nothing stays mapped.
Status map_backing(const Driver& driver, Registry& registry, Allocation& allocation)
    AMEM_REQUIRES(registry.mutex);

/// Unmaps the allocation everywhere and releases its backing; addresses stay reserved. On error it
/// is mapped as before.
Status unmap_backing(const Driver& driver, Registry& registry, Allocation& allocation)
    AMEM_REQUIRES(registry.mutex);

/// Makes new memory for a released allocation, mapped where it was; contents are undefined until
/// filled.
Status create_backing(const Driver& driver, Registry& registry, Allocation& allocation)
    AMEM_REQUIRES(registry.mutex);

/// Imports `fd` for an import that is away, and maps it.
Status import_backing(const Driver& driver, Registry& registry, Allocation& allocation, int fd)
    AMEM_REQUIRES(registry.mutex);

/// Devices on which this process may have work: those of its own allocations and those that were
/// granted access.
std::vector<int> devices_in_use(Registry& registry) AMEM_REQUIRES(registry.mutex);

}  // namespace amem
