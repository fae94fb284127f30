// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

namespace amem {

/// The replacement for sendmsg(2) or recvmsg(2) in NCCL's slots; nullptr for other symbols. Does
/// not allocate or take a lock.
///
/// To map memory of another rank, NCCL requests a descriptor from that rank's process over a Unix
/// socket, and repeats recvmsg(2) until it arrives (linux_ipcsocket.cc:140@2.30.7-1). That process
/// does not answer if it cannot export the memory, for example because its NCCL runs with
/// NCCL_CUMEM_ENABLE=0. A request without an answer for kNoticeMs is logged once, with the rank and
/// its process.
const void* descriptor_request_entry(const char* symbol);

}  // namespace amem
