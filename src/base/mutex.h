// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <sched.h>

#include <condition_variable>
#include <mutex>

#include "base/cancellation.h"
#include "base/deadline.h"

// Clang's thread-safety analysis: https://clang.llvm.org/docs/ThreadSafetyAnalysis.html. Empty with
// other compilers.
#if defined(__clang__)
#define AMEM_TSA(x) __attribute__((x))
#else
#define AMEM_TSA(x)
#endif
#define AMEM_GUARDED_BY(m) AMEM_TSA(guarded_by(m))
#define AMEM_REQUIRES(...) AMEM_TSA(requires_capability(__VA_ARGS__))
#define AMEM_EXCLUDES(...) AMEM_TSA(locks_excluded(__VA_ARGS__))
// For a function that knows one mutex by two names: the analysis would assume two mutexes.
#define AMEM_NOT_ANALYSED AMEM_TSA(no_thread_safety_analysis)

namespace amem {

/// A mutex with annotations for the thread-safety analysis. It is fair to one waiting thread: a
/// thread that unlocks and locks it in a loop cannot starve the waiting thread. With a plain glibc
/// mutex, a peer's request waited during a whole resume.
class AMEM_TSA(capability("mutex")) Mutex {
 public:
  void lock() AMEM_TSA(acquire_capability()) {
    const std::lock_guard turn(turn_);
    mutex_.lock();
  }
  void unlock() AMEM_TSA(release_capability()) { mutex_.unlock(); }
  /// For a caller that may have interrupted the thread that holds the mutex. False if the deadline
  /// has passed first.
  bool try_lock_until(Deadline deadline) AMEM_TSA(try_acquire_capability(true)) {
    bool locked = mutex_.try_lock();
    for (; !locked && !deadline.passed(); locked = mutex_.try_lock()) sched_yield();
    return locked;
  }

 private:
  std::mutex turn_;
  std::mutex mutex_;
};

/// The thread that holds the lock cannot be cancelled, neither in a wait.
class AMEM_TSA(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) AMEM_TSA(acquire_capability(mutex)) : mutex_(mutex) {
    mutex_.lock();
  }
  ~MutexLock() AMEM_TSA(release_capability()) { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;

 private:
  const NoCancellation no_cancellation_;
  Mutex& mutex_;
};

/// A wait that takes longer is reported in the log.
inline constexpr long kNoticeMs = 2000;

/// A condition variable for state that a Mutex guards. The mutex is held on entry and on return, as
/// with std::condition_variable.
class Condition {
 public:
  void notify_all() { condition_.notify_all(); }

  /// Waits until `predicate` is true. Returns false if the deadline passed first.
  template <typename Predicate>
  bool wait_until(Mutex& mutex, Deadline deadline, Predicate predicate) AMEM_REQUIRES(mutex) {
    return condition_.wait_until(mutex, deadline.at(), predicate);
  }
  /// The same. Calls `notice` once, with the mutex held, if the wait takes longer than kNoticeMs.
  template <typename Predicate, typename Notice>
  AMEM_NOT_ANALYSED bool wait_until(Mutex& mutex, Deadline deadline, Predicate predicate,
                                    Notice notice) AMEM_REQUIRES(mutex) {
    const Deadline soon = Deadline::after_ms(kNoticeMs);
    if (soon.at() < deadline.at()) {
      if (wait_until(mutex, soon, predicate)) return true;
      notice();
    }
    return wait_until(mutex, deadline, predicate);
  }

 private:
  std::condition_variable_any condition_;
};

}  // namespace amem
