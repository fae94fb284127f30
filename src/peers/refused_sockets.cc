// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "peers/refused_sockets.h"

#include <signal.h>
#include <sys/socket.h>

#include <utility>

namespace amem {

RefusedSockets::~RefusedSockets() {
  if (!running_) return;
  {
    MutexLock lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  pthread_join(thread_, nullptr);
}

void RefusedSockets::close(TrackedFd socket) {
  shutdown(socket.get(), SHUT_RDWR);
  // Where no thread can be had it is closed here and now: most strangers mean no harm.
  if (!running_ && !start()) return;
  MutexLock lock(mutex_);
  waiting_.push_back(std::move(socket));
  ++count_;
  changed_.notify_all();
}

size_t RefusedSockets::count() const {
  MutexLock lock(mutex_);
  return count_;
}

bool RefusedSockets::start() {
  // Signals belong to the application's threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  running_ = pthread_create(&thread_, nullptr, thread_main, this) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return running_;
}

void* RefusedSockets::thread_main(void* self) {
  pthread_setname_np(pthread_self(), "amem-refused");
  static_cast<RefusedSockets*>(self)->run();
  return nullptr;
}

void RefusedSockets::run() {
  constexpr long kHourMs = 3600 * 1000;
  for (;;) {
    std::deque<TrackedFd> taken;
    {
      MutexLock lock(mutex_);
      changed_.wait_until(mutex_, Deadline::after_ms(kHourMs),
                          [&]() AMEM_REQUIRES(mutex_) { return ending_ || !waiting_.empty(); });
      if (waiting_.empty() && ending_) return;
      taken = std::exchange(waiting_, {});
    }
    while (!taken.empty()) {
      taken.pop_front();
      {
        MutexLock lock(mutex_);
        --count_;
      }
      on_closed_();
    }
  }
}

}  // namespace amem
