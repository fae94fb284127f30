// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "sharing/shared_handles.h"

namespace amem {

/// cuMemImportFromShareableHandle. Warns once if the memory is of a process without amem.
DriverResult import_handle(SharedHandles& handles, DriverHandle* handle, void* shareable, int type);

}  // namespace amem
