// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "shim/call_site.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>
#include <vector>

namespace amem {
namespace {

volatile sig_atomic_t g_seen = -1;

void look(int) { g_seen = called_in_signal_handler() ? 1 : 0; }

[[gnu::noinline]] int look_deeper(int depth) {
  if (depth == 0) {
    look(0);
    return 0;
  }
  const int below = look_deeper(depth - 1);
  asm volatile("" : : "r"(&below) : "memory");  // a frame of its own
  return below + 1;
}
void look_from_below(int) { look_deeper(200); }

class SignalHandler : public testing::Test {
 protected:
  void handle(int signal, void (*handler)(int), int flags = 0) {
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = flags;
    sigaction(signal, &action, &before_);
    signal_ = signal;
    g_seen = -1;
  }
  ~SignalHandler() override { sigaction(signal_, &before_, nullptr); }

  struct sigaction before_ {};
  int signal_ = 0;
};

TEST_F(SignalHandler, IsSeenInTheThreadThatRaisesIt) {
  handle(SIGUSR1, look);
  raise(SIGUSR1);
  EXPECT_EQ(g_seen, 1);
}

TEST_F(SignalHandler, IsSeenFromFarBelow) {
  handle(SIGUSR1, look_from_below);
  raise(SIGUSR1);
  EXPECT_EQ(g_seen, 1);
}

TEST_F(SignalHandler, IsSeenOnAnAlternateStack) {
  std::vector<char> memory(64 << 10);
  stack_t stack{}, before{};
  stack.ss_sp = memory.data();
  stack.ss_size = memory.size();
  ASSERT_EQ(sigaltstack(&stack, &before), 0);
  handle(SIGUSR1, look, SA_ONSTACK);
  raise(SIGUSR1);
  sigaltstack(&before, nullptr);
  EXPECT_EQ(g_seen, 1);
}

TEST_F(SignalHandler, IsSeenInASystemCallOfAnotherThread) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer calls the handler itself, once the system call has returned";
#endif
  handle(SIGUSR1, look);
  sigset_t blocked{}, before{};
  sigaddset(&blocked, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  std::thread waiter([&] { sigsuspend(&before); });  // lets the signal in, sooner or later
  pthread_kill(waiter.native_handle(), SIGUSR1);
  waiter.join();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(g_seen, 1);
}

TEST_F(SignalHandler, IsOverWhenItHasReturned) {
  handle(SIGUSR1, [](int) {});
  raise(SIGUSR1);
  EXPECT_FALSE(called_in_signal_handler());
  look_deeper(200);
  EXPECT_EQ(g_seen, 0);
}

TEST(ExitHandler, IsNoneInTheMiddleOfALife) {
  EXPECT_FALSE(called_in_exit_handler());
  std::thread([] { EXPECT_FALSE(called_in_exit_handler()); }).join();
}

constexpr int kSeen = 42, kNotSeen = 41;
void end_with_what_is_seen() { _exit(called_in_exit_handler() ? kSeen : kNotSeen); }

struct LooksAtItsEnd {
  ~LooksAtItsEnd() { end_with_what_is_seen(); }
};

[[noreturn]] void exit_with_static_object() {
  static LooksAtItsEnd object;
  exit(0);
}

TEST(ExitHandlerDeathTest, IsSeenInAtexit) {
  const auto end = [] {
    atexit(end_with_what_is_seen);
    exit(0);
  };
  EXPECT_EXIT(end(), testing::ExitedWithCode(kSeen), "");
}

TEST(ExitHandlerDeathTest, IsSeenInAtQuickExit) {
  const auto end = [] {
    at_quick_exit(end_with_what_is_seen);
    quick_exit(0);
  };
  EXPECT_EXIT(end(), testing::ExitedWithCode(kSeen), "");
}

TEST(ExitHandlerDeathTest, IsSeenInTheDestructorOfAStaticObject) {
  EXPECT_EXIT(exit_with_static_object(), testing::ExitedWithCode(kSeen), "");
}

TEST(ExitHandlerDeathTest, IsSeenWhenAnotherThreadExits) {
  const auto end = [] {
    atexit(end_with_what_is_seen);
    std::thread([] { exit(0); }).join();
  };
  EXPECT_EXIT(end(), testing::ExitedWithCode(kSeen), "");
}

}  // namespace
}  // namespace amem
