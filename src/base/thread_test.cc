// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "base/thread.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

namespace amem {
namespace {

TEST(StartThread, BlocksEverySignalThereAndNoneHere) {
  sigset_t before, after, there;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);

  const Result<pthread_t> thread =
      start_thread("amem-test", [&there] { pthread_sigmask(SIG_SETMASK, nullptr, &there); });

  ASSERT_TRUE(thread.ok()) << thread.error().message;
  ASSERT_EQ(pthread_join(thread.value(), nullptr), 0);
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (int signal : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD, SIGALRM, SIGPROF}) {
    EXPECT_EQ(sigismember(&there, signal), 1) << signal;
    EXPECT_EQ(sigismember(&after, signal), sigismember(&before, signal)) << signal;
  }
}

// As with `ulimit -s 72`, which glibc reads when a program starts.
TEST(StartThread, HasItsOwnStackSizeWhateverTheDefaultIs) {
  pthread_attr_t before, small;
  pthread_getattr_default_np(&before);
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 72 << 10);
  ASSERT_EQ(pthread_setattr_default_np(&small), 0);
  size_t size_bytes = 0;
  const auto use = [&size_bytes] {
    pthread_attr_t own;
    if (pthread_getattr_np(pthread_self(), &own) != 0) return;
    pthread_attr_getstacksize(&own, &size_bytes);
    pthread_attr_destroy(&own);
  };

  const Result<pthread_t> thread = start_thread("amem-test", use);

  pthread_setattr_default_np(&before);
  ASSERT_TRUE(thread.ok()) << thread.error().message;
  ASSERT_EQ(pthread_join(thread.value(), nullptr), 0);
  EXPECT_GE(size_bytes, kStackBytes);
}

}  // namespace
}  // namespace amem
