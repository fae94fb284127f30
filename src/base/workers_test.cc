// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "base/workers.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <future>
#include <memory>

#include "base/identity.h"

namespace amem {
namespace {

/// Counts, and waits for a count.
class Count {
 public:
  void add() {
    MutexLock lock(mutex_);
    ++count_;
    changed_.notify_all();
  }
  /// False when that takes too long.
  bool reaches(int count) {
    MutexLock lock(mutex_);
    return changed_.wait_until(mutex_, Deadline::after_ms(20000),
                               [&]() AMEM_REQUIRES(mutex_) { return count_ >= count; });
  }

 private:
  Mutex mutex_;
  Condition changed_;
  int count_ AMEM_GUARDED_BY(mutex_) = 0;
};

const InstanceId kFirst{{1, 1}}, kSecond{{2, 2}};

TEST(WorkersTest, JobsWithOneKeyRunInTheirOrder) {
  constexpr int kJobs = 200;
  // Without a lock: jobs with one key never run side by side.
  std::vector<int> first, second;
  Count done;
  Workers<InstanceId> workers("test");
  ASSERT_TRUE(workers.start().ok());

  for (int i = 0; i < kJobs; ++i) {
    workers.post(kFirst, [&first, &done, i] { first.push_back(i), done.add(); });
    workers.post(kSecond, [&second, &done, i] { second.push_back(i), done.add(); });
  }

  ASSERT_TRUE(done.reaches(2 * kJobs));
  ASSERT_EQ(first.size(), size_t{kJobs});
  for (int i = 0; i < kJobs; ++i) EXPECT_EQ(first[static_cast<size_t>(i)], i);
  EXPECT_EQ(second, first);
}

TEST(WorkersTest, BlockedJobDelaysOnlyItsKey) {
  Count released, first_done, second_done;
  std::atomic<bool> is_released = false, next_came_after = false;
  Workers<InstanceId> workers("test");
  ASSERT_TRUE(workers.start().ok());

  workers.post(kFirst, [&] { released.reaches(1); });
  workers.post(kFirst, [&] { next_came_after = is_released.load(), first_done.add(); });
  workers.post(kSecond, [&] { second_done.add(); });

  EXPECT_TRUE(second_done.reaches(1));
  is_released = true;
  released.add();
  EXPECT_TRUE(first_done.reaches(1));
  EXPECT_TRUE(next_came_after);
}

TEST(WorkersTest, ManyKeysAreServedSideBySide) {
  constexpr int kKeys = 32;
  Count inside, met;
  Workers<InstanceId> workers("test");
  ASSERT_TRUE(workers.start().ok());

  for (uint64_t i = 0; i < kKeys; ++i)
    workers.post(InstanceId{{i, i}}, [&] {
      inside.add();
      if (inside.reaches(kKeys)) met.add();
    });

  EXPECT_TRUE(met.reaches(kKeys));
}

TEST(WorkersTest, JobMayPostMore) {
  Count done;
  Workers<InstanceId> workers("test");
  ASSERT_TRUE(workers.start().ok());

  workers.post(kFirst, [&] {
    workers.post(kFirst, [&] { done.add(); });
    workers.post(kSecond, [&] { done.add(); });
  });

  EXPECT_TRUE(done.reaches(2));
}

/// Counts when the thread that set it ends.
struct AtThreadEnd {
  Count* count = nullptr;
  ~AtThreadEnd() {
    if (count != nullptr) count->add();
  }
};
thread_local AtThreadEnd t_end;

TEST(WorkersTest, DestructorWaitsForTheRunningJobAndDropsTheOthers) {
  Count running, idle, ended, may_end;
  std::atomic<bool> finished = false, other_ran = false;
  auto workers = std::make_unique<Workers<InstanceId>>("test");
  ASSERT_TRUE(workers->start().ok());
  workers->post(kFirst, [&] {
    running.add();
    may_end.reaches(1);
    finished = true;
  });
  workers->post(kFirst, [&] { other_ran = true; });
  ASSERT_TRUE(running.reaches(1));
  workers->post(kSecond, [&] { t_end.count = &ended, idle.add(); });
  ASSERT_TRUE(idle.reaches(1));

  auto destructor = std::async(std::launch::async, [&] {
    workers.reset();
    return finished.load();
  });
  // The idle thread ends when the destructor has told all to stop.
  EXPECT_TRUE(ended.reaches(1));
  may_end.add();

  EXPECT_TRUE(destructor.get());
  EXPECT_FALSE(other_ran);
}

TEST(WorkersTest, SignalsAreLeftToTheApplication) {
  sigset_t none, before, after, of_worker;
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, &before);
  Count done;
  Workers<InstanceId> workers("test");
  ASSERT_TRUE(workers.start().ok());

  workers.post(kFirst, [&] {
    pthread_sigmask(SIG_SETMASK, nullptr, &of_worker);
    done.add();
  });

  ASSERT_TRUE(done.reaches(1));
  pthread_sigmask(SIG_SETMASK, &before, &after);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD, SIGALRM}) {
    EXPECT_EQ(sigismember(&of_worker, signal), 1) << signal;
    EXPECT_EQ(sigismember(&after, signal), 0) << signal << " stays blocked in the caller";
  }
}

}  // namespace
}  // namespace amem
