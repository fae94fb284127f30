// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "registry/allocation.h"

namespace amem {

/// What the environment says about contents.
struct KindSettings {
  bool free_p2p_payload = false;  ///< AMEM_NCCL_OFFLOAD_FREE_TAG=7
};

/// The kind by which an allocation that this process owns is paused. Default is keep: keeping too
/// much is slow, keeping too little is corruption.
Kind kind_for_pause(const Allocation& allocation, const KindSettings& settings);

/// Marks an allocation as never to be released, with the reason for statistics. The first reason
/// stays.
void pin(Allocation& allocation, const char* because);

}  // namespace amem
