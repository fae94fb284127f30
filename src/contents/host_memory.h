// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstddef>
#include <string>

#include "driver/driver.h"

namespace amem {

constexpr size_t kHugePage = size_t{2} << 20;

/// The bytes that this process can still allocate before the kernel must end a process:
/// MemAvailable (proc(5)), or less if a memory cgroup of this process has less left (cgroup v2 or
/// v1; page cache counts as free). SIZE_MAX if the kernel reports nothing. Reads files below
/// `root`, which is "" except in tests.
size_t available_host_bytes(const std::string& root = "");

/// The host NUMA node that is nearest to the device; -1 if the machine has none or the driver does
/// not report it (CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, CUDA 12.2).
int nearest_numa_node(const Driver& driver, int device);

/// Asks the kernel to allocate the pages of an unused range on this node if possible. If `node` is
/// -1, or the kernel refuses (seccomp filter of a container), only the speed of copies changes.
void prefer_numa_node(void* base, size_t size_bytes, int node);

/// Writes to every page of a range, with this number of threads at most: the first access is the
/// slow part.
void touch_pages(unsigned char* base, size_t size_bytes, size_t threads = 1);

}  // namespace amem
