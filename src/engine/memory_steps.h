// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "driver/driver.h"
#include "registry/registry.h"

namespace amem {

// What the driver is told for one allocation, and the record of it. A step may break off in the
// middle, when the driver refuses one of its calls. What was done is recorded, so that the same
// step can be taken up again, and its opposite undoes just that.

/// Unmaps the allocation everywhere and releases its backing; addresses stay reserved.
Status unmap_backing(const Driver& driver, Registry& registry, Allocation& allocation)
    AMEM_REQUIRES(registry.mutex);

/// Makes new memory for an allocation that has none, and maps it at every address where NCCL has
/// it, with the access NCCL granted. Contents are undefined until filled.
Status create_backing(const Driver& driver, Registry& registry, Allocation& allocation)
    AMEM_REQUIRES(registry.mutex);

/// Imports `fd` for an import that has no memory, and maps it likewise.
Status import_backing(const Driver& driver, Registry& registry, Allocation& allocation, int fd)
    AMEM_REQUIRES(registry.mutex);

/// Devices on which this process may have work: those of its own allocations and those that were
/// granted access.
std::vector<int> devices_in_use(Registry& registry) AMEM_REQUIRES(registry.mutex);

}  // namespace amem
