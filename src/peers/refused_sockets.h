// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <pthread.h>

#include <cstddef>
#include <deque>
#include <functional>

#include "base/mutex.h"
#include "peers/fd_ledger.h"

namespace amem {

/// Closes the connections of strangers on a thread of its own, which starts with the first one.
///
/// With a connection the kernel closes the fds that lie in it unread, and closing somebody else's
/// file may take as long as he likes: an hour for a TCP socket with SO_LINGER (socket(7)). Nobody
/// waits for that here but this thread.
class RefusedSockets {
 public:
  /// `on_closed` is called on that thread after each one.
  explicit RefusedSockets(std::function<void()> on_closed) : on_closed_(std::move(on_closed)) {}
  /// Waits for what is being closed. Only tests get here.
  ~RefusedSockets();
  RefusedSockets(const RefusedSockets&) = delete;

  /// The other side sees the end at once. One thread at a time.
  void close(TrackedFd socket);
  /// Those that are not closed yet. Any thread.
  size_t count() const;

 private:
  static void* thread_main(void* self);
  bool start();
  void run();

  const std::function<void()> on_closed_;
  pthread_t thread_{};    // allow: of the one thread that calls close()
  bool running_ = false;  // allow: see thread_
  mutable Mutex mutex_;
  Condition changed_;
  std::deque<TrackedFd> waiting_ AMEM_GUARDED_BY(mutex_);
  size_t count_ AMEM_GUARDED_BY(mutex_) = 0;
  bool ending_ AMEM_GUARDED_BY(mutex_) = false;
};

}  // namespace amem
