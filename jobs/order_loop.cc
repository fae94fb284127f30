// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "jobs/order_loop.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <stdexcept>

#include "nccl.h"

namespace jobs {

namespace {
int g_answers = STDOUT_FILENO;
}

int answers_descriptor() { return g_answers; }

std::string answer_to(const Orders& orders, const std::string& line) {
  Words words(line);
  std::string name, answer;
  words >> name;
  try {
    const auto found = orders.find(name);
    if (found == orders.end()) throw std::runtime_error("unknown order " + name);
    answer = "ok " + found->second(words);
  } catch (const std::exception& error) {
    answer = std::string("error ") + error.what();
  }
  std::replace(answer.begin(), answer.end(), '\n', ' ');
  return answer;
}

void follow_orders(const Orders& orders) {
  // Orders and answers have the pipe for themselves: what NCCL prints goes to standard error.
  g_answers = dup(STDOUT_FILENO);
  dup2(STDERR_FILENO, STDOUT_FILENO);
  FILE* const out = fdopen(g_answers, "w");
  // With stdio, a thread that waits for a line would hold the lock of stdin, and exit() on another
  // one would wait for it (glibc 2.39, _IO_cleanup).
  std::ios::sync_with_stdio(false);
  for (std::string line; std::getline(std::cin, line);) {
    if (line == "exit") break;
    fprintf(out, "%s\n", answer_to(orders, line).c_str());
    fflush(out);
  }
  _exit(0);
}

int print_version() {
  int version = 0;
  if (ncclGetVersion(&version) != ncclSuccess) return 1;
  std::cout << version << "\n";
  return 0;
}

}  // namespace jobs
