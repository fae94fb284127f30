// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sharing/service_workers.h"

#include <algorithm>

#include "base/thread.h"

namespace amem {

Status ServiceWorkers::add_thread() {
  threads_.push_back(AMEM_TRY(start_thread("amem-worker", run, this)));
  return ok_status();
}

Status ServiceWorkers::start() {
  MutexLock lock(mutex_);
  return threads_.empty() ? add_thread() : ok_status();
}

void ServiceWorkers::post(const InstanceId& peer, Job job) {
  MutexLock lock(mutex_);
  lines_[peer].jobs.push_back(std::move(job));
  // A peer has a queue while it has jobs, waiting or running: one thread for each queue is enough.
  // If no thread can be started, the job runs after others.
  if (lines_.size() > threads_.size()) (void)add_thread();
  changed_.notify_all();
}

ServiceWorkers::Lines::iterator ServiceWorkers::next_line() {
  return std::find_if(lines_.begin(), lines_.end(),
                      [](const auto& entry) { return !entry.second.busy; });
}

bool ServiceWorkers::take(InstanceId* peer, Job* job) {
  MutexLock lock(mutex_);
  const auto is_work = [&]() AMEM_REQUIRES(mutex_) { return stop_ || next_line() != lines_.end(); };
  while (!changed_.wait_until(mutex_, Deadline::after_ms(3600 * 1000), is_work)) {
  }
  if (stop_) return false;
  const auto line = next_line();
  line->second.busy = true;
  *peer = line->first;
  *job = std::move(line->second.jobs.front());
  line->second.jobs.pop_front();
  return true;
}

void ServiceWorkers::finish(const InstanceId& peer) {
  MutexLock lock(mutex_);
  const auto line = lines_.find(peer);
  line->second.busy = false;
  if (line->second.jobs.empty()) lines_.erase(line);
  changed_.notify_all();
}

void* ServiceWorkers::run(void* argument) {
  ServiceWorkers& self = *static_cast<ServiceWorkers*>(argument);
  InstanceId peer;
  for (Job job; self.take(&peer, &job); job = nullptr) {
    job();
    self.finish(peer);
  }
  return nullptr;
}

ServiceWorkers::~ServiceWorkers() {
  std::vector<pthread_t> threads;
  {
    MutexLock lock(mutex_);
    stop_ = true;
    threads.swap(threads_);
    changed_.notify_all();
  }
  for (pthread_t thread : threads) pthread_join(thread, nullptr);
}

}  // namespace amem
