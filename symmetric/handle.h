// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <sys/types.h>

#include <atomic>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "symmetric/driver.h"
#include "symmetric/kernel_set.h"
#include "symmetric/kernels.h"
#include "symmetric/multicast.h"

namespace amem::symmetric {

/// The buffers of a group, mapped in this process (rendezvous.cc). Constant while calls use it, but
/// for what is about its failure, which is thread-safe.
class SymmetricHandle {
 public:
  View view{};
  int device = 0;
  DeviceAddress buffer = 0, workspace = 0;  ///< of this rank
  size_t signal_pad_bytes = 0;
  size_t scratch_bytes = 0;            ///< of each workspace, for two-shot all-reduces
  uint32_t multiprocessors = 0;        ///< for each rank (launch_shapes.h)
  std::vector<pid_t> pids;             ///< by rank
  std::vector<void*> opened;           ///< memory of peers
  std::vector<void*> buffers;          ///< by rank, for amemSymmetricInfo_t
  std::vector<uint32_t*> signal_pads;  ///< the same
  Multicast multicast;
  const KernelSet* kernels = nullptr;
  /// Of all this memory. Each call enters it.
  std::atomic<amemMemorySet_t> set{nullptr};

  uint32_t rank() const { return view.rank; }
  uint32_t world_size() const { return view.world_size; }

  /// Of the kernels, in pinned memory.
  void set_report(detail::Report* report);
  /// The report, which status() does not read any more; nullptr if there is none.
  detail::Report* take_report();
  /// The error of a kernel, of an earlier call or of a peer that has ended; success if there is
  /// none.
  Status status();
  /// All calls fail from now on, unless they do already. `abort`: also kernels that wait for a
  /// peer, within milliseconds and not at their timeout.
  void fail(Error why, bool abort);
  /// amemMemorySetUser_t::failure: the text of status(), nullptr for success.
  const char* failure_text();

 private:
  Status status_locked() AMEM_REQUIRES(mutex_);

  Mutex mutex_;
  Status failure_ AMEM_GUARDED_BY(mutex_) = ok_status();
  detail::Report* report_ AMEM_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace amem::symmetric
