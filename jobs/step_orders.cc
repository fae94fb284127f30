// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "jobs/step_orders.h"

#include <signal.h>
#include <time.h>

#include <atomic>
#include <cstdlib>

namespace jobs {
namespace {

std::atomic<bool> g_held{false}, g_may_go_on{false};

void stay(int) {
  g_held = true;
  const timespec moment{0, 1'000'000};
  while (!g_may_go_on) nanosleep(&moment, nullptr);
  g_held = false;
}

std::string hold_at(Words& words) {
  struct sigaction action {};
  action.sa_handler = stay;
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR2, &action, nullptr);
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

Orders step_orders() { return {{"hold_at", hold_at}, {"held", held}, {"go_on", go_on}}; }

}  // namespace jobs
