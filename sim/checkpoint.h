// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>

#include "sim/cuda_abi.h"
#include "sim/fault.h"

/// The driver's checkpoint of this process (CUDA Driver API 12.8, "CUDA Checkpointing";
/// NVIDIA/cuda-checkpoint). What is simulated, and no more:
///  - a lock makes calls of the driver wait, after those that run and submitted work have ended;
///  - a checkpoint copies the memory of the GPUs to the host and releases it, that of contexts too;
///    a restore puts it back at the same addresses. Memory on the host stays where it is;
///  - memory that was restored cannot be exported: CUDA_ERROR_INVALID_VALUE (driver r615,
///    ai-dynamo/snapshot#165 and #206);
///  - a checkpoint of a process with a multicast object, even an unbound one, does not return
///    (NVIDIA/nccl#2340);
///  - with memory that was imported, or whose exports others hold, a checkpoint fails and the
///    process cannot be used again ("does not support … IPC memory", "does not attempt to keep the
///    process in a good state"). That the code is CUDA_ERROR_NOT_SUPPORTED is not known of a GPU.
/// A process can checkpoint only itself: another pid is CUDA_ERROR_NOT_SUPPORTED.
namespace amem::sim {

class Checkpoint {
 public:
  static Checkpoint& instance();

  CuProcessState state() const { return state_; }

  // The driver functions with these names.
  /// kErrorNotReady: calls or work have not ended in time, and the process is not locked. 0: waits.
  CuResult lock(unsigned timeout_ms);
  CuResult save();
  /// kErrorOutOfMemory: it stays checkpointed, and can be restored later.
  CuResult restore();
  CuResult unlock();

  void begin_call();
  void end_call() { running_calls_.fetch_sub(1); }

 private:
  bool at_rest() const;

  // Sequentially consistent: a call counts itself, then reads the state; a lock the reverse.
  std::atomic<CuProcessState> state_{kProcessRunning};
  std::atomic<int> running_calls_{0};
};

/// A call of the driver that waits while the process is locked, and for which a lock waits.
class RunningCall {
 public:
  explicit RunningCall(Function function)
      : counts_(function_kind(function) != FunctionKind::kAnytime &&
                function_kind(function) != FunctionKind::kCheckpoint) {
    if (counts_) Checkpoint::instance().begin_call();
  }
  ~RunningCall() {
    if (counts_) Checkpoint::instance().end_call();
  }
  RunningCall(const RunningCall&) = delete;

 private:
  const bool counts_;
};

}  // namespace amem::sim
