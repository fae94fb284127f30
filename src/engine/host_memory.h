// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstddef>
#include <string>

#include "driver/driver.h"

namespace amem {

/// Bytes that this process can still take before the kernel has to end somebody: MemAvailable
/// (proc(5)), or less where a memory cgroup of this process has less room (cgroup-v2.rst,
/// "memory.max"; its page cache counts as room). SIZE_MAX where the kernel says nothing. Reads
/// below `root`, "" but for tests.
size_t available_host_bytes(const std::string& root = "");

/// The NUMA node of the host that is nearest to the device; -1 where the machine has none or the
/// driver does not say (CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, CUDA 12.2).
int nearest_numa_node(const Driver& driver, int device);

/// Asks the kernel to take the pages of a range, none of them used yet, from that node as long as
/// it has some. Best effort: -1 and a kernel that refuses (a container's seccomp filter) change
/// nothing but the speed of copies.
void prefer_numa_node(void* base, size_t size_bytes, int node);

/// Writes to every page of a range, from several threads: first use of memory is what takes the
/// time.
void touch_pages(unsigned char* base, size_t size_bytes);

}  // namespace amem
