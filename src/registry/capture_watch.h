// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>
#include <cstdint>
#include <set>

#include "base/mutex.h"
#include "driver/driver.h"
#include "registry/call_gate.h"

namespace amem {

/// What NCCL's question whether a stream is being captured tells. NCCL asks it for every call that
/// launches work (enqueue.cc, ncclCudaGetCapturingGraph@v2.28.9), and the question passes our hook.
///
/// It shows streams that are being captured into a CUDA graph: a pause is refused as long as one of
/// these captures goes on. And it shows work that reached NCCL without passing the gate: by a
/// function that amem does not know, or by an address that a caller kept from before amem was
/// loaded.
///
/// Thread-safe.
class CaptureWatch {
 public:
  explicit CaptureWatch(CallGate& gate) : gate_(gate) {}

  /// NCCL asked on the calling thread about this stream, and the driver answered `status`
  /// (CUstreamCaptureStatus). An error refuses the work.
  Status note(DriverStream stream, int status, long timeout_ms) {
    if (!gate_.caller_is_in_call() && !works_in_background_) [[unlikely]]
      AMEM_TRY(gate_.admit_ungated("an NCCL call that does not pass amem's gate", timeout_ms));
    if (status == kCaptureStatusNone) {
      forget(stream);
      return ok_status();
    }
    MutexLock lock(mutex_);
    captured_.insert(stream);
    remembers_.store(true, std::memory_order_relaxed);
    return ok_status();
  }

  /// NCCL allocates device memory on the calling thread. It does so for calls that have passed the
  /// gate, also on threads of its own, which a call waits for. Memory that no call is inside for
  /// belongs to a communicator whose calls pass no gate.
  void note_allocation() {
    if (!gate_.caller_is_in_call() && !works_in_background_) gate_.note_ungated_allocation();
  }

  /// NCCL launches work on threads of its own from now on (non-blocking communicators).
  void expect_background_work() { works_in_background_ = true; }

  /// Is one of them still being captured? Streams whose capture has ended are forgotten.
  bool any(const Driver& driver) {
    MutexLock lock(mutex_);
    // Left is a stream that is destroyed after its capture without another NCCL call on it: the
    // driver is asked about what is no stream any more, which CUDA leaves undefined. Frameworks
    // keep theirs.
    std::erase_if(captured_, [&](DriverStream stream) {
      int status = kCaptureStatusNone;
      return driver.cuStreamIsCapturing(stream, &status) != driver_result::kSuccess ||
             status == kCaptureStatusNone;
    });
    remembers_.store(!captured_.empty(), std::memory_order_relaxed);
    return !captured_.empty();
  }

 private:
  static constexpr uintptr_t kPerThreadStream = 2;  ///< CU_STREAM_PER_THREAD

  /// NCCL has learnt that the stream's capture, if there was one, is over. At every launch, so it
  /// costs a load as long as nothing is remembered.
  void forget(DriverStream stream) {
    if (!remembers_.load(std::memory_order_relaxed)) return;
    // One name for a stream of each thread, and another's may still be captured.
    if (reinterpret_cast<uintptr_t>(stream) == kPerThreadStream) return;
    MutexLock lock(mutex_);
    captured_.erase(stream);
    remembers_.store(!captured_.empty(), std::memory_order_relaxed);
  }

  CallGate& gate_;
  std::atomic<bool> works_in_background_{false};
  Mutex mutex_;
  std::set<DriverStream> captured_ AMEM_GUARDED_BY(mutex_);
  std::atomic<bool> remembers_{false};  ///< is any captured_? Written with the mutex held.
};

}  // namespace amem
