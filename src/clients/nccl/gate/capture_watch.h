// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <utility>

#include "base/mutex.h"
#include "clients/nccl/gate/async_communicators.h"
#include "driver/driver.h"

namespace amem {

/// Evaluates NCCL's query of a stream's capture state. NCCL makes this query in every call that
/// launches work (enqueue.cc, ncclCudaGetCapturingGraph@v2.28.9), and it passes a hook of amem.
///
/// It detects captures into CUDA graphs: a pause is refused until these captures end. A capture is
/// recorded with the first stream that NCCL queries, which is the caller's. NCCL also queries
/// streams that it creates for the capture and destroys afterwards (strongstream.cc,
/// ncclStreamAdvanceToEvent@v2.28.9). A query of a destroyed stream, or of a stream of a destroyed
/// context, can end the process: with driver 580.159 it reads freed host memory (measured: H100,
/// 2026-11-27). Streams that the application destroys are therefore forgotten
/// (catch_stream_ends()), also during a capture, which does not end with them; the next NCCL call
/// in it is recorded again. It also detects work that has not passed the gate: by
/// a function that amem does not know, or by a function pointer that the caller stored before amem
/// was loaded.
///
/// Thread-safe.
class CaptureWatch {
 public:
  /// NCCL launches work of `background` on its own threads.
  CaptureWatch(CallGate& gate, const AsyncCommunicators& background)
      : gate_(gate), background_(background) {}

  /// NCCL has queried this stream on the calling thread, and the driver returned `status`
  /// (CUstreamCaptureStatus) and the id of the capture. An error refuses the work.
  Status note(DriverStream stream, int status, uint64_t capture, long timeout_ms) {
    if (is_ungated()) [[unlikely]]
      AMEM_TRY(gate_.admit_ungated("an NCCL call that does not pass amem's gate", timeout_ms));
    if (status == kCaptureStatusNone) {
      forget(stream);
      return ok_status();
    }
    t_captured_ = true;
    MutexLock lock(mutex_);
    captured_.emplace(capture, stream);
    remembers_.store(true, std::memory_order_relaxed);
    return ok_status();
  }

  /// The stream is not being captured, or is destroyed. Called at every launch: it costs one load
  /// if no stream is listed.
  void forget(DriverStream stream) {
    if (!remembers_.load(std::memory_order_relaxed)) return;
    // This name means a different stream in each thread, and another thread's may still be
    // captured.
    if (reinterpret_cast<uintptr_t>(stream) == kPerThreadStream) return;
    MutexLock lock(mutex_);
    std::erase_if(captured_, [&](const auto& entry) { return entry.second == stream; });
    remembers_.store(!captured_.empty(), std::memory_order_relaxed);
  }

  /// True if the calling thread has started captured work since the last call of this function.
  static bool take_captured() { return std::exchange(t_captured_, false); }

  /// NCCL allocates device memory on the calling thread. NCCL does so in calls that have passed the
  /// gate, and on its own threads while a call waits for them. An allocation while no call is
  /// inside belongs to a communicator whose calls pass no gate.
  void note_allocation() {
    if (is_ungated()) gate_.note_ungated_allocation();
  }

  /// True if a capture is still running. Removes captures that have ended.
  bool any(const Driver& driver) {
    MutexLock lock(mutex_);
    std::erase_if(captured_, [&](const auto& entry) {
      int status = kCaptureStatusNone;
      return driver.cuStreamIsCapturing(entry.second, &status) != driver_result::kSuccess ||
             status == kCaptureStatusNone;
    });
    remembers_.store(!captured_.empty(), std::memory_order_relaxed);
    return !captured_.empty();
  }

 private:
  static constexpr uintptr_t kPerThreadStream = 2;  ///< CU_STREAM_PER_THREAD
  static inline constinit thread_local bool t_captured_ = false;

  /// True if NCCL works on the calling thread for a call that is not inside. A thread that has
  /// never made a call may be one of NCCL's own.
  bool is_ungated() const {
    return !gate_.caller_is_in_call() && (!background_.any() || gate_.caller_has_called());
  }

  CallGate& gate_;
  const AsyncCommunicators& background_;
  Mutex mutex_;
  std::map<uint64_t, DriverStream> captured_ AMEM_GUARDED_BY(mutex_);  ///< by id of the capture
  /// captured_ is not empty. Written with the mutex held. Relaxed: a thread that ends a stream
  /// comes after the work on it, which the application orders.
  std::atomic<bool> remembers_{false};
};

/// Intercepts the calls of the CUDA runtime and driver that destroy streams, in all images that
/// call them by name, so that destroyed streams are forgotten. Calls that a program with the static
/// CUDA runtime makes are not seen. Call it before start_interposition().
void catch_stream_ends();

}  // namespace amem
