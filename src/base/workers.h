// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <pthread.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "base/thread.h"

namespace amem {

/// Threads that run jobs: those with the same key in order, those with different keys concurrently.
///
/// Thread-safe. A thread is started if all are busy; threads are kept. With one key there is one
/// thread.
template <typename Key>
class Workers {
 public:
  using Job = std::function<void()>;

  /// `name` is that of the threads (start_thread()).
  explicit Workers(const char* name) : name_(name) {}
  /// Waits for running jobs.
  AMEM_NOT_ANALYSED ~Workers() {
    stop();
    for (pthread_t thread : threads_) pthread_join(thread, nullptr);
  }

  /// Starts the first thread, so that post() cannot fail. Errors: os.
  Status start() {
    MutexLock lock(mutex_);
    return threads_.empty() ? add_thread() : ok_status();
  }

  /// Runs `job` after all earlier jobs with this key. Does not block.
  void post(const Key& key, Job job) {
    MutexLock lock(mutex_);
    if (stop_) return;
    queues_[key].jobs.push_back(std::move(job));
    // There is a queue while it has jobs, waiting or running: one thread for each queue is enough.
    // If no thread can be started, the job runs after others.
    if (queues_.size() > threads_.size()) (void)add_thread();
    changed_.notify_all();
  }

  /// Drops the jobs that have not started, and later ones.
  void stop() {
    MutexLock lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }

 private:
  struct Queue {
    std::deque<Job> jobs;
    bool busy = false;
  };

  Status add_thread() AMEM_REQUIRES(mutex_) {
    threads_.push_back(AMEM_TRY(start_thread(name_, [this] { run(); })));
    return ok_status();
  }
  auto next_queue() AMEM_REQUIRES(mutex_) {
    return std::find_if(queues_.begin(), queues_.end(),
                        [](const auto& entry) { return !entry.second.busy; });
  }
  AMEM_NOT_ANALYSED void run() {
    MutexLock lock(mutex_);
    for (;;) {
      while (!changed_.wait_until(
          mutex_, Deadline::after_ms(3600 * 1000),
          [&]() AMEM_REQUIRES(mutex_) { return stop_ || next_queue() != queues_.end(); })) {
      }
      if (stop_) return;
      const auto queue = next_queue();
      queue->second.busy = true;
      Job job = std::move(queue->second.jobs.front());
      queue->second.jobs.pop_front();
      mutex_.unlock();
      job();
      job = nullptr;
      mutex_.lock();
      queue->second.busy = false;
      if (queue->second.jobs.empty()) queues_.erase(queue);
      changed_.notify_all();
    }
  }

  const char* const name_;  // allow: constant
  Mutex mutex_;
  Condition changed_;
  std::map<Key, Queue> queues_ AMEM_GUARDED_BY(mutex_);
  std::vector<pthread_t> threads_ AMEM_GUARDED_BY(mutex_);
  bool stop_ AMEM_GUARDED_BY(mutex_) = false;
};

}  // namespace amem
