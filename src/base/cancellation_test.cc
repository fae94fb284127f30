// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "base/cancellation.h"

#include <gtest/gtest.h>

#include "base/mutex.h"
#include "tests/support/cancellation_point.h"

namespace amem {
namespace {

/// A thread that cancels itself, and then runs `body`. True if it came to the end of `body` and was
/// cancelled afterwards.
template <typename Body>
bool is_cancelled_after(Body body) {
  struct Run {
    Body body;
    bool ended = false;
  } run{std::move(body)};
  pthread_t thread{};
  const auto work = [](void* argument) -> void* {
    Run& mine = *static_cast<Run*>(argument);
    pthread_cancel(pthread_self());
    mine.body();
    mine.ended = true;
    cancellation_point();
    return nullptr;
  };
  EXPECT_EQ(pthread_create(&thread, nullptr, work, &run), 0);
  void* result = nullptr;
  EXPECT_EQ(pthread_join(thread, &result), 0);
  return run.ended && result == PTHREAD_CANCELED;
}

TEST(NoCancellation, EndsNoThreadWhileItExists) {
  EXPECT_TRUE(is_cancelled_after([] {
    const NoCancellation outer;
    { const NoCancellation inner; }
    cancellation_point();
  }));
  EXPECT_FALSE(is_cancelled_after([] {
    { const NoCancellation ended; }
    cancellation_point();
  }));
}

TEST(NoCancellation, KeepsWhatTheThreadHasSet) {
  int state = 0;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
  { const NoCancellation no_cancellation; }
  pthread_setcancelstate(state, &state);
  EXPECT_EQ(state, PTHREAD_CANCEL_DISABLE);
}

// A thread that ended here would leave the mutex locked.
TEST(MutexLock, IsNotLeftByAThreadThatIsCancelledInAWait) {
  Mutex mutex;
  Condition changed;
  EXPECT_TRUE(is_cancelled_after([&] {
    MutexLock lock(mutex);
    (void)changed.wait_until(mutex, Deadline::after_ms(1), [] { return false; });
  }));
  const bool is_free = mutex.try_lock_until(Deadline::after_ms(0));
  if (is_free) mutex.unlock();
  EXPECT_TRUE(is_free);
}

}  // namespace
}  // namespace amem
