// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "registry/allocation.h"

namespace amem {

/// The sizes of NCCL's FIFOs, one for each protocol (init.cc:computeBuffSizes@v2.28.9-1).
struct FifoSizes {
  size_t ll_bytes = size_t{512} << 10;
  size_t ll128_bytes = 4915200;
  size_t simple_bytes = size_t{4} << 20;
};

/// What the environment says about contents.
struct ContentSettings {
  /// AMEM_NCCL_OFFLOAD_FREE_TAG=7: of P2P buffers only the headers are kept, whatever lies behind.
  bool headers_only = false;
  FifoSizes fifos{};
};

/// How many bytes of an allocation, from its start, survive a pause; the rest is zero afterwards.
/// All of what is kept, unless the user has asked for less: a message that was sent and not
/// received lies in its receiver's FIFO (docs/decisions/0008-fifos-are-kept.md).
size_t kept_bytes(const Allocation& allocation, const ContentSettings& settings);

}  // namespace amem
