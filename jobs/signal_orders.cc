// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "jobs/signal_orders.h"

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <chrono>
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

/// A handler for SIGUSR1, until the end of its life.
class Handler {
 public:
  explicit Handler(void (*handler)(int)) {
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    sigaction(SIGUSR1, &action, &before_);
  }
  ~Handler() { sigaction(SIGUSR1, &before_, nullptr); }
  Handler(const Handler&) = delete;

 private:
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

}  // namespace

Orders signal_orders() { return {{"in_signal", in_signal}, {"signal_storm", signal_storm}}; }

}  // namespace jobs
