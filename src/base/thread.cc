// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "base/thread.h"

#include <signal.h>

#include <cerrno>
#include <memory>
#include <utility>

namespace amem {

Result<pthread_t> start_thread(const char* name, std::function<void()> run) {
  using Run = std::function<void()>;
  auto owned = std::make_unique<Run>(std::move(run));
  const auto call = [](void* argument) -> void* {
    const std::unique_ptr<Run> job(static_cast<Run*>(argument));
    (*job)();
    return nullptr;
  };
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  pthread_t thread{};
  const int code = pthread_create(&thread, &attributes, call, owned.get());
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (code != 0)
    return os_error(code, "pthread_create(%s)%s", name,
                    code == EAGAIN ? " (raise ulimit -u or the cgroup's pids.max)" : "");
  (void)owned.release();
  pthread_setname_np(thread, name);
  return thread;
}

}  // namespace amem
