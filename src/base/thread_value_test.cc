// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "base/thread_value.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>

namespace amem {
namespace {

struct Number {
  int number = 7;
};

TEST(ThreadValue, IsEachThreadsOwn) {
  EXPECT_EQ(thread_value<Number>().number, 7);
  thread_value<Number>().number = 8;
  std::thread([] { EXPECT_EQ(thread_value<Number>().number, 7); }).join();
  EXPECT_EQ(thread_value<Number>().number, 8);
}

std::atomic<int> g_ended{0};
struct CountsItsEnd {
  ~CountsItsEnd() { ++g_ended; }
  std::string text;
};

TEST(ThreadValue, EndsWithItsThread) {
  std::thread([] { thread_value<CountsItsEnd>().text = "of a thread"; }).join();
  EXPECT_EQ(g_ended, 1);
}

/// A thread_local object, destroyed before.
struct AsksAtItsEnd {
  ~AsksAtItsEnd() { text_seen = thread_value<CountsItsEnd>().text; }
  static std::string text_seen;
};
std::string AsksAtItsEnd::text_seen;

TEST(ThreadValue, IsThereInDestructorsOfThreadLocalObjects) {
  std::thread([] {
    thread_local AsksAtItsEnd object;
    (void)object;
    thread_value<CountsItsEnd>().text = "of a thread";
  }).join();
  EXPECT_EQ(AsksAtItsEnd::text_seen, "of a thread");
}

TEST(ThreadValueDeathTest, IsThereInExitHandlers) {
  const auto end = [] {
    thread_value<CountsItsEnd>().text = "kept";
    atexit([] { _exit(thread_value<CountsItsEnd>().text == "kept" && g_ended == 0 ? 42 : 41); });
    exit(0);
  };
  EXPECT_EXIT(end(), testing::ExitedWithCode(42), "");
}

}  // namespace
}  // namespace amem
