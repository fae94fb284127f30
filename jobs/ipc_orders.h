// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "jobs/orders.h"

namespace jobs {

/// Memory that ranks open of each other with the IPC functions of a CUDA runtime. The rank loads
/// the runtime and looks the functions up, as programs do with ctypes: AMEM_TEST_CUDART is its
/// path, by default libcudart.so.12.
Orders ipc_orders();

}  // namespace jobs
