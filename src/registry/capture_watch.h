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

/// Streams on which NCCL work was seen while they were being captured into a CUDA graph: a pause
/// has to be refused as long as one of these captures goes on.
///
/// Thread-safe.
class CaptureWatch {
 public:
  explicit CaptureWatch(CallGate& gate) : gate_(gate) {
    gate_.take_long_way(CallGate::LongWay::unseen_captures);
  }

  /// What the driver said of a stream, CUstreamCaptureStatus, to NCCL.
  void note(DriverStream stream, int status) {
    if (status == kCaptureStatusNone) return forget(stream);
    MutexLock lock(mutex_);
    captured_.insert(stream);
    remembers_.store(true, std::memory_order_relaxed);
  }

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

  /// NCCL asks the driver itself, at every call that launches something, whether its stream is
  /// being captured (enqueue.cc, ncclCudaGetCapturingGraph@v2.28.9), and the answer passes our
  /// hook. Where NCCL's question could not be hooked, somebody else has to ask.
  void note_hooked() {
    hooked_ = true;
    gate_.end_long_way(CallGate::LongWay::unseen_captures);
  }
  bool is_hooked() const { return hooked_.load(std::memory_order_relaxed); }

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
  std::atomic<bool> hooked_{false};
  Mutex mutex_;
  std::set<DriverStream> captured_ AMEM_GUARDED_BY(mutex_);
  std::atomic<bool> remembers_{false};  ///< is any captured_? Written with the mutex held.
};

}  // namespace amem
