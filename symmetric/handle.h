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

/// Why all calls on a handle fail: the report of its kernels, an earlier call, or a peer that has
/// ended. Thread-safe.
class HandleFailure {
 public:
  /// `pids`: of the processes by rank.
  explicit HandleFailure(const std::vector<pid_t>& pids) : pids_(pids) {}

  /// The report is in pinned memory; nullptr: none. Returns the former one, which is not read any
  /// more.
  detail::Report* exchange_report(detail::Report* report);
  /// `abort`: also kernels that wait for a peer end, within milliseconds and not at their timeout.
  void set(Error why, bool abort);
  /// The first failure; success if there is none.
  Status status();
  /// The same as amemMemorySetUser_t::failure.
  const char* text();

 private:
  const Status& find() AMEM_REQUIRES(mutex_);

  const std::vector<pid_t>& pids_;
  Mutex mutex_;
  Status failure_ AMEM_GUARDED_BY(mutex_) = ok_status();
  detail::Report* report_ AMEM_GUARDED_BY(mutex_) = nullptr;
};

/// The buffers of a group, mapped in this process (rendezvous.cc). Constant while calls use it.
struct SymmetricHandle {
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
  HandleFailure failure{pids};

  uint32_t rank() const { return view.rank; }
  uint32_t world_size() const { return view.world_size; }
};

}  // namespace amem::symmetric
