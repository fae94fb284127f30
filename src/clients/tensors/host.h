// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "clients/tensors/region.h"
#include "clients/tensors/tensor_client.h"

namespace amem {

// Functions of the process that the client of tagged memory needs. Implemented in api/.

/// amemMalloc(): allocates on the device of the calling thread's current CUDA context.
Result<DeviceAddress> allocate_tagged(size_t size_bytes, const Tag& tag, Kind kind);

/// TensorClient::open() on that device. Errors also if amem is inactive.
Result<DeviceAddress> open_tagged(const IpcHandleBytes& handle);

/// The client of this process; nullptr if amem is inactive.
TensorClient* tensor_client();

}  // namespace amem
