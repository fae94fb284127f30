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

/// One piece of work of a stream. It runs on the stream's worker thread and answers with a
/// CUresult: a failure is the context's from then on, as an illegal address is on a GPU.
struct Operation {
  std::function<CuResult()> run;
  bool always = false;       ///< runs in a failed context too: others wait for it
  uint64_t stack_bytes = 0;  ///< that a thread of it needs
};

/// Something that will have happened: the point of a stream at which an event was recorded.
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

/// Runs operations in order on a thread of its own, which starts with the first one. The null
/// stream of a context is such a stream as well: it does not wait for other streams, and they do
/// not wait for it. Thread-safe.
class Stream : public std::enable_shared_from_this<Stream> {
 public:
  Stream(Context& context, unsigned flags) : context_(context), flags_(flags) {}

  Context& context() { return context_; }
  bool blocking() const { return (flags_ & kStreamNonBlocking) == 0; }

  void enqueue(Operation operation);

  /// Waits for what was enqueued before the call.
  void synchronize() { wait_for(position()); }

  /// How much was enqueued so far, and the wait until that much is done.
  uint64_t position();
  void wait_for(uint64_t position);

  /// True when nothing is left to do.
  bool idle();

  /// No more work will come; what is enqueued still runs.
  void close();

  /// True when it is closed and nothing is left to do.
  bool finished();

 private:
  void start_worker();
  void work();

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
