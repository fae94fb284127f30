// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>

#include "api/remote_control.h"
#include "base/active.h"
#include "clients/graphs/captured_graphs.h"
#include "clients/nccl/nccl_client.h"
#include "clients/symmetric/symmetric_client.h"
#include "clients/tensors/region.h"
#include "clients/tensors/tensor_client.h"
#include "engine/session.h"

namespace amem {

/// The region of AMEM_TENSORS; nothing if it is not set.
std::optional<Region> process_region_of_environment();

/// The amem object of this process. It holds all state, is built at the first call that needs it,
/// and is never destroyed, because other processes and amem's threads use it until the process
/// ends.
///
/// In a forked child amem is inactive: the threads of the parent do not exist there, and its locks
/// may be held. After exit() has begun amem makes no driver call, because the driver may be
/// unloaded.
class Process {
 public:
  /// The object; nullptr if amem is not enabled or there is no CUDA driver (why_off()).
  /// Thread-safe. Makes no driver call.
  static Process* get() {
    Process* const made = made_.load(std::memory_order_acquire);
    return made != nullptr ? made : build_once();
  }
  /// The same, but does not build the object. Async-signal-safe.
  static Process* built() { return made_.load(std::memory_order_acquire); }
  static std::string why_off();

  /// statistics_json(): what `amem status` shows of this process, or amemGetStatus().
  std::string status_text(bool with_details);
  /// Whose the memory is that this process has on each GPU on which it has a primary context, as
  /// JSON for `amem why` and amemGetAttribution(). Waits a moment at most for a device that is
  /// busy; what only its context knows is then missing. Any thread.
  std::string attribution_text();

  /// In a forked child amem is inactive.
  bool is_active() const { return amem::built<VirtualMemory>() != nullptr; }

  // In the order in which they are built.
  const Driver driver;
  Registry registry;
  ExitFlag exiting;
  DeviceThreads devices;
  ProcessContext engine;
  VirtualMemory memory;
  Sharing sharing;
  SharedHandles handles;
  CapturedGraphs graphs;
  NcclClient nccl;
  TensorClient tensors;
  SymmetricClient symmetric;
  Session session;
  RemoteControl remote;

 private:
  explicit Process(const Driver& found);
  /// Intercepted calls use the objects of this process, or none.
  void set_active(bool is_active);
  static Process* build();
  static Process* build_once();
  static inline constinit std::atomic<Process*> made_{nullptr};
};

}  // namespace amem
