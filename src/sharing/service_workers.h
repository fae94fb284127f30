// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <pthread.h>

#include <deque>
#include <functional>
#include <map>
#include <vector>

#include "base/identity.h"
#include "base/mutex.h"
#include "base/result.h"

namespace amem {

/// The threads that do for peers what takes time: in order for each peer, side by side
/// for different ones, so that one whose request cannot be met does not delay another's.
///
/// Thread-safe. Threads are started when all are busy, and stay.
class ServiceWorkers {
 public:
  using Job = std::function<void()>;

  ServiceWorkers() = default;
  /// Waits for jobs that run; those that have not begun are dropped.
  ~ServiceWorkers();
  ServiceWorkers(const ServiceWorkers&) = delete;

  /// Starts the first thread, so that post() cannot fail. Errors: os.
  Status start();

  /// Runs `job` after everything that was posted for this peer. Never blocks.
  void post(const InstanceId& peer, Job job);

 private:
  struct Line {
    std::deque<Job> jobs;
    bool busy = false;
  };
  using Lines = std::map<InstanceId, Line>;
  Lines::iterator next_line() AMEM_REQUIRES(mutex_);
  Status add_thread() AMEM_REQUIRES(mutex_);
  /// Waits for a job and takes it; false when there will be none.
  bool take(InstanceId* peer, Job* job);
  void finish(const InstanceId& peer);
  static void* run(void* self);

  Mutex mutex_;
  Condition changed_;
  Lines lines_ AMEM_GUARDED_BY(mutex_);
  std::vector<pthread_t> threads_ AMEM_GUARDED_BY(mutex_);
  bool stop_ AMEM_GUARDED_BY(mutex_) = false;
};

}  // namespace amem
