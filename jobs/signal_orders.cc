// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "jobs/signal_orders.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "amem.h"
#include "nccl.h"

namespace jobs {

namespace {

std::atomic<bool> g_resume{false};
std::atomic<int> g_result{-1};
std::atomic<const char*> g_text{nullptr};
std::atomic<long> g_refused{0}, g_let_in{0};

void make_one_call(int) {
  g_result = g_resume ? ncclResume(NULL) : ncclPause(NULL);
  g_text = amemGetLastError();
}

void make_both_calls(int) {
  for (const ncclResult_t result : {ncclPause(NULL), ncclResume(NULL)})
    ++(result == ncclInvalidUsage ? g_refused : g_let_in);
}

/// A handler for a signal, until the end of its life.
class Handler {
 public:
  explicit Handler(void (*handler)(int), int signal = SIGUSR1) : signal_(signal) {
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    sigaction(signal_, &action, &before_);
  }
  ~Handler() { sigaction(signal_, &before_, nullptr); }
  Handler(const Handler&) = delete;

 private:
  const int signal_;
  struct sigaction before_ {};
};

std::string in_signal(Words& words) {
  std::string call;
  words >> call;
  if (call != "pause" && call != "resume") throw std::runtime_error("in_signal pause|resume");
  g_resume = call == "resume";
  const Handler handler(make_one_call);
  raise(SIGUSR1);
  return std::to_string(g_result) + " " + g_text.load();
}

void check(ncclResult_t result, const char* call) {
  if (result != ncclSuccess)
    throw std::runtime_error(std::string(call) + ": " + amemGetLastError());
}

/// What takes locks, of ours and of the allocator.
void do_something() {
  std::vector<std::unique_ptr<char[]>> pieces;
  for (size_t i = 0; i < 200; ++i) pieces.push_back(std::make_unique<char[]>(i * 97 % 5000 + 1));
  for (int i = 0; i < 50; ++i) {
    amemTotals_t totals{};
    amemGetTotals(-1, -1, &totals);
    ncclSetGroupID(-1);
    amemGetLastError();
  }
}

std::string signal_storm(Words& words) {
  constexpr int kEnough = 100, kMostCycles = 1000;
  int cycles = 0;
  words >> cycles;
  g_refused = g_let_in = 0;
  const Handler handler(make_both_calls);
  std::atomic<bool> stop{false};
  std::thread sender([&stop, target = pthread_self()] {
    // With time in between, or the thread would do nothing but handle signals.
    for (; !stop; std::this_thread::sleep_for(std::chrono::microseconds(200)))
      pthread_kill(target, SIGUSR1);
  });
  std::string failure;
  try {
    // A busy machine lets few signals through in a cycle.
    for (int i = 0; i < cycles || (g_refused <= kEnough && i < kMostCycles); ++i) {
      check(ncclPause(NULL), "ncclPause");
      do_something();
      check(ncclResume(NULL), "ncclResume");
      do_something();
    }
  } catch (const std::exception& error) {
    failure = error.what();
  }
  stop = true;
  sender.join();
  if (!failure.empty()) throw std::runtime_error(failure);
  return std::to_string(g_refused) + " " + std::to_string(g_let_in);
}

std::atomic<bool> g_held{false}, g_may_go_on{false};

void stay(int) {
  g_held = true;
  const timespec moment{0, 1'000'000};
  while (!g_may_go_on) nanosleep(&moment, nullptr);
  g_held = false;
}

/// hold_at POINT [N]: the thread that is at this step point of a seeded library for the N-th time
/// stays there until "go_on". "held" says whether one does.
std::string hold_at(Words& words) {
  static Handler* const handler = new Handler(stay, SIGUSR2);
  (void)handler;
  std::string point, times = "1";
  words >> point >> times;
  g_may_go_on = false;
  setenv("AMEM_TEST_STEP_POINT", (point + "=" + std::to_string(SIGUSR2) + ":" + times).c_str(), 1);
  return "";
}
std::string held(Words&) { return g_held ? "1" : "0"; }
std::string go_on(Words&) {
  g_may_go_on = true;
  return "";
}

}  // namespace

Orders signal_orders() {
  return {{"in_signal", in_signal},
          {"signal_storm", signal_storm},
          {"hold_at", hold_at},
          {"held", held},
          {"go_on", go_on}};
}

}  // namespace jobs
