// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "sim/cuda_abi.h"

namespace amem::sim {

class Context;

/// One operation of a stream. It runs on the stream's worker thread and returns a CUresult. A
/// failure becomes the failure of the context, like an illegal address on a GPU.
struct Operation {
  std::function<CuResult()> run;
  bool always = false;       ///< runs in a failed context too, because others wait for it
  uint64_t stack_bytes = 0;  ///< of one thread of a kernel
};

/// An event of the future: the point of a stream at which an event was recorded.
class Completion {
 public:
  void finish();
  bool done();
  void wait();
  /// REQUIRES: done.
  std::chrono::steady_clock::time_point at();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::chrono::steady_clock::time_point at_;
};

/// Runs operations in order on its own thread, which starts with the first operation. The null
/// stream of a context is a normal stream: it does not wait for other streams, and they do not wait
/// for it. Thread-safe.
class Stream : public std::enable_shared_from_this<Stream> {
 public:
  Stream(Context& context, unsigned flags) : context_(context), flags_(flags) {}

  Context& context() { return context_; }
  bool blocking() const { return (flags_ & kStreamNonBlocking) == 0; }

  void enqueue(Operation operation);

  /// Waits for operations that were enqueued before the call.
  void synchronize() { wait_for(position()); }

  /// The number of enqueued operations, and a wait until that many are complete.
  uint64_t position();
  void wait_for(uint64_t position);

  /// True if no operation is pending.
  bool idle();

  /// No operation will be added; pending operations still run.
  void close();

  /// True if the stream is closed and no operation is pending.
  bool finished();

 private:
  bool start_worker();
  void work();
  void run_next(std::unique_lock<std::mutex>& lock);

  Context& context_;
  const unsigned flags_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Operation> queue_;
  uint64_t enqueued_ = 0;
  uint64_t completed_ = 0;
  bool started_ = false;
  bool closed_ = false;
};

using StreamRef = std::shared_ptr<Stream>;

}  // namespace amem::sim
