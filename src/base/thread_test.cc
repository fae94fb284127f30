// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "base/thread.h"

#include <gtest/gtest.h>
#include <signal.h>

namespace amem {
namespace {

void* look(void* blocked) {
  pthread_sigmask(SIG_SETMASK, nullptr, static_cast<sigset_t*>(blocked));
  return nullptr;
}

TEST(StartThread, BlocksEverySignalThereAndNoneHere) {
  sigset_t before, after, there;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);

  const Result<pthread_t> thread = start_thread("amem-test", look, &there);

  ASSERT_TRUE(thread.ok()) << thread.error().message;
  ASSERT_EQ(pthread_join(thread.value(), nullptr), 0);
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (int signal : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD, SIGALRM, SIGPROF}) {
    EXPECT_EQ(sigismember(&there, signal), 1) << signal;
    EXPECT_EQ(sigismember(&after, signal), sigismember(&before, signal)) << signal;
  }
}

}  // namespace
}  // namespace amem
