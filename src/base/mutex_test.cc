// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "base/mutex.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace amem {
namespace {

/// How often a thread locks a mutex anew before another, which waits for it, has it.
int rounds_until_served() {
  constexpr int kMaxRounds = 1'000'000;
  constexpr std::chrono::milliseconds kTimeToComeToTheDoor{10};
  Mutex mutex;
  std::atomic<bool> coming{false}, served{false};
  int rounds = 0;
  mutex.lock();
  std::thread waiter([&] {
    coming = true;
    MutexLock lock(mutex);
    served = true;
  });
  while (!coming) std::this_thread::yield();
  std::this_thread::sleep_for(kTimeToComeToTheDoor);  // allow: nothing shows that it waits
  for (; rounds < kMaxRounds && !served; ++rounds) {
    mutex.unlock();
    mutex.lock();
  }
  mutex.unlock();
  waiter.join();
  return rounds;
}

TEST(Mutex, GoesToTheOneWhoWaits) {
  int sum = 0;
  for (int i = 0; i < 20; ++i) sum += rounds_until_served();
  // Once or twice each; without the door ten thousands now and then.
  EXPECT_LE(sum, 100);
}

}  // namespace
}  // namespace amem
