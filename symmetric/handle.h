// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <vector>

#include "base/identity.h"
#include "base/result.h"
#include "driver/types.h"
#include "symmetric/kernel_set.h"
#include "symmetric/kernels.h"
#include "symmetric/multicast.h"

namespace amem {

/// Another rank, or this one, of a handle.
struct SymmetricPeer {
  InstanceId process;
  pid_t pid = 0;
};

/// The buffers of a group, mapped in this process (rendezvous.h). Constant while calls use it, but
/// for the members that SymmetricClient guards.
struct SymmetricHandle {
  symmetric::View view{};
  int device = 0;
  DeviceAddress buffer = 0, workspace = 0;  ///< of this rank
  size_t signal_pad_bytes = 0;
  size_t scratch_bytes = 0;            ///< of each workspace, for two-shot all-reduces
  uint32_t multiprocessors = 0;        ///< for each rank (launch_shapes.h)
  std::vector<SymmetricPeer> peers;    ///< by rank
  std::vector<DeviceAddress> opened;   ///< memory of peers
  std::vector<void*> buffers;          ///< by rank, for amemSymmetricInfo_t
  std::vector<uint32_t*> signal_pads;  ///< the same
  Multicast multicast;
  symmetric::detail::Report* report = nullptr;  ///< in pinned memory
  const KernelSet* kernels = nullptr;

  // Guarded by SymmetricClient.
  uintptr_t id = 0;  ///< SymmetricClient::add()
  int calls_inside = 0;
  bool is_ending = false;        ///< no call enters
  Status failure = ok_status();  ///< why all calls fail

  uint32_t rank() const { return view.rank; }
  uint32_t world_size() const { return view.world_size; }
  /// The error of a kernel, of an earlier call or of a peer that has ended; success if there is
  /// none. Needs the mutex of SymmetricClient.
  Status status() const;
};

}  // namespace amem
