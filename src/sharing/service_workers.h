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

/// The threads that carry out long requests of peers: in order for each peer, concurrently for
/// different peers, so that a request that cannot be met does not delay other peers.
///
/// Thread-safe. A thread is started if all are busy; threads are kept.
class ServiceWorkers {
 public:
  using Job = std::function<void()>;

  ServiceWorkers() = default;
  /// Waits for running jobs. Jobs that have not started are dropped.
  ~ServiceWorkers();
  ServiceWorkers(const ServiceWorkers&) = delete;

  /// Starts the first thread, so that post() cannot fail. Errors: os.
  Status start();

  /// Runs `job` after all earlier jobs of this peer. Does not block.
  void post(const InstanceId& peer, Job job);

 private:
  struct Line {
    std::deque<Job> jobs;
    bool busy = false;
  };
  using Lines = std::map<InstanceId, Line>;
  Lines::iterator next_line() AMEM_REQUIRES(mutex_);
  Status add_thread() AMEM_REQUIRES(mutex_);
  /// Waits for a job and takes it. False at shutdown.
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
