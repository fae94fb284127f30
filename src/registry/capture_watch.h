// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>
#include <set>

#include "base/mutex.h"
#include "driver/driver.h"
#include "registry/call_counter.h"
#include "registry/call_gate.h"

namespace amem {

/// Streams on which NCCL work was seen while they were being captured into a CUDA graph: a pause
/// has to be refused as long as one of these captures goes on. What is seen here and was not
/// counted, or cannot be, casts doubt on the counts.
///
/// Thread-safe.
class CaptureWatch {
 public:
  CaptureWatch(const CallGate& gate, CallCounter& calls) : gate_(gate), calls_(calls) {}

  /// What the driver said of a stream, CUstreamCaptureStatus, to NCCL, which asks on the thread of
  /// its caller.
  void note(DriverStream stream, int status) {
    if (!gate_.caller_is_inside())
      calls_.doubt("an NCCL that was loaded by its path, past amem, is in use");
    if (status == kCaptureStatusNone) return;
    calls_.doubt("NCCL work was captured into a CUDA graph, and nobody sees how often that runs");
    MutexLock lock(mutex_);
    captured_.insert(stream);
  }

  /// Is one of them still being captured? Streams whose capture has ended are forgotten.
  bool any(const Driver& driver) {
    MutexLock lock(mutex_);
    // A stream cannot be destroyed in the middle of its capture without ending it first, and
    // frameworks keep theirs.
    std::erase_if(captured_, [&](DriverStream stream) {
      int status = kCaptureStatusNone;
      return driver.cuStreamIsCapturing(stream, &status) != driver_result::kSuccess ||
             status == kCaptureStatusNone;
    });
    return !captured_.empty();
  }

  /// NCCL asks the driver itself, at every call that launches something, whether its stream is
  /// being captured (enqueue.cc, ncclCudaGetCapturingGraph@v2.28.9), and the answer passes our
  /// hook. Where NCCL's question could not be hooked, somebody else has to ask.
  std::atomic<bool> hooked{false};
  /// NCCL may ask in a way that passes no hook.
  void note_unseen() { calls_.doubt("NCCL's captures of streams cannot be seen"); }

 private:
  const CallGate& gate_;
  CallCounter& calls_;
  Mutex mutex_;
  std::set<DriverStream> captured_ AMEM_GUARDED_BY(mutex_);
};

}  // namespace amem
